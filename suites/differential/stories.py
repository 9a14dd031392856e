"""What happens to one object: who writes it how, in random order."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from traincrew.local.apiserver.schema import load_builtin

from . import edits
from .wire import Document, Request

if TYPE_CHECKING:
    from traincrew.local.apiserver.nodes import Node

    from .dice import Dice
    from .kinds import Kind
    from .play import NextRequest

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


def builtin_story(kind: Kind, verbs: dict[str, float] = VERBS) -> NextRequest:
    """A story of a built-in kind."""
    resource = kind.resource
    node = load_builtin(resource.group, resource.version, resource.kind).node
    verbs = {verb: weight for verb, weight in verbs.items() if verb != "status" or kind.status}

    def choose(dice: Dice, live: Document | None) -> Request:
        return next_request(dice, node, kind.document(dice), live, verbs)

    return choose


def next_request(
    dice: Dice, node: Node, donor: Document, live: Document | None, verbs: dict[str, float]
) -> Request:
    """The next request: the first one creates, most others keep most of the object.

    Args:
        dice: what decides.
        node: schema of the kind.
        donor: a whole random object of the kind, for its parts.
        live: the object as the servers show it, None when there is none.
        verbs: what to do, by weight.
    """
    manager = dice.one(MANAGERS)
    query = {}
    if dice.maybe(0.03):
        query["dryRun"] = "All"
    if live is None:
        verb = dice.one(["create", "apply"])
        return Request(verb, donor, manager, query | _force(dice, verb))
    verb = dice.weighted(verbs)
    match verb:
        case "apply":
            body = edits.part(dice, node, donor, dice.one([0.3, 0.6, 0.9, 1.0]))
            return Request("apply", body, manager, query | _force(dice, verb))
        case "update":
            carried = dice.one(
                [
                    ("resourceVersion", "uid", "managedFields"),
                    ("managedFields",),
                    ("resourceVersion",),
                    (),
                ]
            )
            return Request(
                "update", edits.edited(dice, live, donor), manager, query, carried=carried
            )
        case "json-patch":
            patch = edits.json_patch(dice, live, donor)
            if dice.maybe(0.05):
                patch.append({"op": "replace", "path": "/metadata/managedFields", "value": [{}]})
            return Request(verb, patch, manager, query)
        case "merge-patch":
            return Request(verb, edits.merge_patch(dice, node, donor), manager, query)
        case "strategic-patch":
            patch_document = edits.strategic_patch(dice, node, live, donor)
            return Request(verb, patch_document, manager, query)
        case "status":
            return _status(dice, live, manager, query)
        case "create":
            return Request(verb, donor, manager, query)
        case _:
            return Request("delete")


def _force(dice: Dice, verb: str) -> dict[str, str]:
    return {"force": "true"} if verb == "apply" and dice.maybe() else {}


def _status(dice: Dice, live: Document, manager: str, query: dict[str, str]) -> Request:
    """A controller reports."""
    conditions = [
        {
            "type": name,
            "status": dice.one(["True", "False"]),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "R",
            "message": dice.one(["m", "n"]),
        }
        for name in dice.some(["A", "B"])
    ]
    status = {"conditions": conditions}
    verb = dice.one(["apply", "merge-patch", "update"])
    if verb == "update":
        body = edits.without_identity(live)
        body["status"] = copy.deepcopy(live.get("status", {})) | status
        if dice.maybe(0.2):
            body["metadata"]["labels"] = {"a": "y"}
        return Request("update", body, manager, query, "status")
    if verb == "apply":
        return Request("apply", {"status": status}, manager, query | _force(dice, verb), "status")
    return Request(verb, {"status": status}, manager, query, "status")
