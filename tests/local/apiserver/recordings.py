"""Recorded answers of a kube-apiserver: what is asked, and what has to be answered.

`recorded` has a file for each built-in kind: the release of Kubernetes that answered, the day, and
cases. `make test` asks the embedded API server the same over HTTP (`test_recorded`);
`suites/differential/test_recorded.py` asks a kube-apiserver again, and
``python -m suites.differential.recording`` writes what it answers into the files.

A case has an object that is created, as a dry run if nothing follows. With ``update``, a merge
patch, the object is replaced by itself and those changes; with ``status`` it gets that status.
``row`` asks for its row in the table that kubectl prints. ``difference`` says in what the embedded
API server is known to answer something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from local.apiserver.strategies import resource_of
from traincrew.engine import mergepatch

DIRECTORY = Path(__file__).with_name("recorded")
NAMESPACE = "default"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
AGES = frozenset({"Age", "Created At", "Duration", "Last Schedule", "Last Seen", "First Seen"})
"""Columns whose cells depend on the time."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RANDOM = re.compile(r"kube-api-access-[a-z0-9]{5}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_NODE_PORT = re.compile(r":3[0-2]\d{3}/")
_OF_THE_SERVER = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
_OF_THE_USER = ("extra", "groups", "uid", "username")
"""Who asks for a certificate has another name on the two servers."""
_TRIES = 5
"""Controllers write the status of some objects as soon as they are created."""

Document = dict[str, Any]


class Reply(NamedTuple):
    """The response to one request: its code, its body, the texts of its warnings."""

    code: int
    body: Any
    warnings: list[str]


Send = Callable[[str, str, Document | None, str], Awaitable[Reply]]
"""Sends a request: method, path with query, body, and what is accepted."""


def files() -> list[Path]:
    """Return the files of recordings, one for each kind."""
    return sorted(DIRECTORY.glob("*.json"))


def read(file: Path) -> Document:
    """Return the release, the day and the cases of a kind."""
    found: Document = json.loads(file.read_text())
    return found


def write(file: Path, recording: Document) -> None:
    """Write a recording so that each case is a few lines."""
    head = {key: value for key, value in recording.items() if key != "cases"}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    cases = [_case_text(case) for case in recording["cases"]]
    file.write_text("{" + "\n".join([*lines, '"cases": [']) + "\n" + ",\n".join(cases) + "\n]}\n")


def _case_text(case: Document) -> str:
    parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in case.items()]
    return "{" + ",\n ".join(parts) + "}"


async def prepare(send: Send) -> None:
    """Create what the objects of the cases refer to."""
    for path, kind in (
        ("namespaces", "Namespace"),
        (f"namespaces/{NAMESPACE}/serviceaccounts", "ServiceAccount"),
    ):
        wanted = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "default"}}
        reply = await send("POST", f"/api/v1/{path}", wanted, "application/json")
        assert reply.code in {201, 409}, reply


def texts_of(headers: Iterable[str]) -> list[str]:
    """Return the texts of ``Warning`` headers: ``299 - "text"``."""
    quoted = (header.partition('"')[2].rpartition('"')[0] for header in headers)
    return [text.replace('\\"', '"').replace("\\\\", "\\") for text in quoted]


async def ask(send: Send, case: Document) -> Document:
    """Ask a server what a case asks, and return its answer in the form of a recording.

    What the case creates is deleted again.
    """
    wanted: Document = case["object"]
    group, _, version = wanted["apiVersion"].rpartition("/")
    resource = resource_of(group, wanted["kind"])
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    spaces = f"/namespaces/{NAMESPACE}" if resource.namespaced else ""
    path = f"{root}{spaces}/{resource.plural}"
    if not {"update", "status"} & case.keys():
        accept = TABLE if case.get("row") else "application/json"
        reply = await send("POST", f"{path}?dryRun=All", wanted, accept)
        return _answer(reply, whole=True)
    created = await send("POST", path, wanted, "application/json")
    if created.code != 201:
        return {"created": _answer(created, whole=True)}
    place = f"{path}/{created.body['metadata']['name']}"
    try:
        if "status" in case:
            changes = {"status": None}, {"status": case["status"]}
            reply = await _replace(send, place, "/status", *changes)
            if reply.code != 200:
                return {"status": _answer(reply, whole=True)}
        if "update" in case:
            reply = await _replace(send, place, "?dryRun=All", case["update"])
        else:
            reply = await send("GET", place, None, TABLE if case.get("row") else "application/json")
        return _answer(reply, whole=False)
    finally:
        await send("DELETE", f"{place}?gracePeriodSeconds=0", None, "application/json")


async def _replace(send: Send, place: str, what: str, *changes: Document) -> Reply:
    """Replace an object, with these merge patches; again if a controller has changed it meanwhile.

    Args:
        send: Sends the requests.
        place: The path of the object.
        what: The rest of the path to which it is written.
        changes: What changes, one after another.
    """
    for _ in range(_TRIES):
        changed = (await send("GET", place, None, "application/json")).body
        for change in changes:
            changed = mergepatch.apply(changed, change)
        reply = await send("PUT", f"{place}{what}", changed, "application/json")
        if reply.code != 409 or reply.body.get("reason") != "Conflict":
            break
    return reply


def _answer(reply: Reply, *, whole: bool) -> Document:
    """Return a reply without what differs between two servers, or between two days."""
    found: Document = {"code": reply.code}
    if reply.warnings:
        found["warnings"] = reply.warnings
    body = json.loads(_UUID.sub("<uid>", json.dumps(reply.body)))
    if not isinstance(body, dict):
        return found | {"body": body}
    if body.get("kind") == "Table":
        names = [column["name"] for column in body["columnDefinitions"]]
        (row,) = body["rows"]
        cells = dict(zip(names, row["cells"], strict=True))
        cells |= dict.fromkeys(AGES & cells.keys(), "<age>")
        if "Requestor" in cells:
            cells["Requestor"] = "<user>"
        if cells.get("Cluster-IP", "None")[0].isdigit():
            cells["Cluster-IP"] = "<address>"
        return found | {"row": json.loads(_NODE_PORT.sub(":<port>/", json.dumps(cells)))}
    if body.get("kind") == "Status":
        return found | _refusal(body)
    return found | ({"object": _comparable(body)} if whole else {})


def _refusal(status: Document) -> Document:
    """Return reason and causes; the message of a refusal with causes is made of them."""
    causes = [
        [each.get("field", ""), each.get("reason", ""), each.get("message", "")]
        for each in status.get("details", {}).get("causes", [])
    ]
    once = [each for index, each in enumerate(causes) if each not in causes[:index]]
    found = {"reason": status.get("reason", "")}
    return found | ({"causes": once} if once else {"message": status.get("message", "")})


def _comparable(found: Document) -> Document:
    text = _TIME.sub("<time>", json.dumps(found))
    text = _RANDOM.sub("kube-api-access-<random>", text)
    same: Document = json.loads(text)
    for name in _OF_THE_SERVER:
        same["metadata"].pop(name, None)
    spec = same.get("spec")
    if same["kind"] == "CertificateSigningRequest" and isinstance(spec, dict):
        for name in _OF_THE_USER:
            spec.pop(name, None)
    if same["kind"] == "Service" and isinstance(spec, dict):
        for each in (spec, *spec.get("ports", ())):
            for name in ("healthCheckNodePort", "nodePort"):
                if each.get(name):
                    each[name] = "<port>"
        for name in ("clusterIP", "clusterIPs"):
            if spec.get("clusterIP") != "None":
                spec.pop(name, None)
    return same
