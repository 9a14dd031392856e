"""Random choice of the next request for an object: verb, field manager and body."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

from traincrew.local.apiserver.schema import load_builtin

from . import edits
from .random_choice import RandomChoice
from .requests import Document, Request

if TYPE_CHECKING:
    from traincrew.local.apiserver.schema.node import SchemaNode

    from .kinds import Kind

NextRequest = Callable[[RandomChoice, Document | None], Request]
"""Chooses the next request, given the object as both servers show it."""
MANAGERS = ["alice", "bob", "carol"]

VERBS: dict[str, float] = {
    "apply": 10,
    "update": 3,
    "json-patch": 2,
    "merge-patch": 2,
    "strategic-patch": 2,
    "status": 2,
    "delete": 0.3,
    "create": 0.1,
}


def builtin_requests(kind: Kind, verbs: dict[str, float] = VERBS) -> NextRequest:
    """Return a chooser of requests for a built-in kind."""
    resource = kind.resource
    node = load_builtin(resource.group, resource.version, resource.kind).node
    verbs = {verb: weight for verb, weight in verbs.items() if verb != "status" or kind.status}

    def choose(choice: RandomChoice, live: Document | None) -> Request:
        return next_request(choice, node, kind.document(choice), live, verbs)

    return choose


def next_request(
    choice: RandomChoice,
    node: SchemaNode,
    donor: Document,
    live: Document | None,
    verbs: dict[str, float],
) -> Request:
    """Return the next request: the first creates the object, most others keep most of it.

    Args:
        choice: the random choices.
        node: schema of the kind.
        donor: a random object of the kind, whose parts are used.
        live: the object as the servers return it, None when there is none.
        verbs: verbs with their weights.
    """
    manager = choice.one(MANAGERS)
    query = {}
    if choice.maybe(0.03):
        query["dryRun"] = "All"
    if live is None:
        verb = choice.one(["create", "apply"])
        return Request(verb, donor, manager, query | _force(choice, verb))
    verb = choice.weighted(verbs)
    match verb:
        case "apply":
            body = edits.part(choice, node, donor, choice.one([0.3, 0.6, 0.9, 1.0]))
            return Request("apply", body, manager, query | _force(choice, verb))
        case "update":
            carried = choice.one(
                [
                    ("resourceVersion", "uid", "managedFields"),
                    ("managedFields",),
                    ("resourceVersion",),
                    (),
                ]
            )
            return Request(
                "update", edits.edited(choice, live, donor), manager, query, carried=carried
            )
        case "json-patch":
            patch = edits.json_patch(choice, live, donor)
            if choice.maybe(0.05):
                patch.append({"op": "replace", "path": "/metadata/managedFields", "value": [{}]})
            return Request(verb, patch, manager, query)
        case "merge-patch":
            return Request(verb, edits.merge_patch(choice, node, donor), manager, query)
        case "strategic-patch":
            patch_document = edits.strategic_patch(choice, node, live, donor)
            return Request(verb, patch_document, manager, query)
        case "status":
            return _status(choice, live, manager, query)
        case "create":
            return Request(verb, donor, manager, query)
        case _:
            return Request("delete")


def _force(choice: RandomChoice, verb: str) -> dict[str, str]:
    return {"force": "true"} if verb == "apply" and choice.maybe() else {}


def _status(choice: RandomChoice, live: Document, manager: str, query: dict[str, str]) -> Request:
    """Return a status update, as a controller would send it."""
    conditions = [
        {
            "type": name,
            "status": choice.one(["True", "False"]),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "R",
            "message": choice.one(["m", "n"]),
        }
        for name in choice.some(["A", "B"])
    ]
    status = {"conditions": conditions}
    verb = choice.one(["apply", "merge-patch", "update"])
    if verb == "update":
        body = edits.without_identity(live)
        body["status"] = copy.deepcopy(live.get("status", {})) | status
        if choice.maybe(0.2):
            body["metadata"]["labels"] = {"a": "y"}
        return Request("update", body, manager, query, "status")
    if verb == "apply":
        return Request("apply", {"status": status}, manager, query | _force(choice, verb), "status")
    return Request(verb, {"status": status}, manager, query, "status")
