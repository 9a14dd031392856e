"""Comparison of two responses.

Everything is compared except what necessarily differs between two servers: uids, times, and
resourceVersions, of which only the order of appearance is compared. Of ``managedFields`` the
entries and their contents are compared; their order is checked for each server separately, since
the times of the two may differ by a second.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .requests import Answer, Document

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


class Memory:
    """What one server has returned for one object so far.

    Attributes:
        live: the object as last returned; None when there is none.
    """

    def __init__(self) -> None:
        self.live: Document | None = None
        self._uids: dict[str, str] = {}
        self._revisions: dict[str, str] = {}

    def learn(self, answer: Answer, verb: str, *, dry_run: bool) -> None:
        """Remember the object in a successful response."""
        if not 200 <= answer.code < 300:
            return
        document = json.loads(answer.text)
        if dry_run:
            uid = document["metadata"].get("uid", "")
            if uid and uid not in self._uids:
                self._uids[uid] = "uid-never-stored"
            return
        if document["kind"] == "Status" or verb == "delete":
            self.live = None
            return
        self.live = document
        metadata = document["metadata"]
        self._uids.setdefault(metadata["uid"], f"uid-number-{len(self._uids)}")
        self._revisions.setdefault(
            metadata["resourceVersion"], f"<revision {len(self._revisions)}>"
        )

    def own(self, body: bytes | None) -> bytes | None:
        """Return a body with this server's uids in place of their placeholders."""
        if body is not None:
            for uid, name in self._uids.items():
                body = body.replace(name.encode(), uid.encode())
        return body

    def canonical(self, answer: Answer) -> dict[str, Any]:
        """Return a response without what necessarily differs; call `learn` first."""
        text = answer.text
        for uid, name in self._uids.items():
            text = text.replace(uid, name)
        try:
            body = json.loads(text)
        except ValueError:
            return {"code": answer.code, "warnings": list(answer.warnings), "body": text}
        if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
            self._canonical_metadata(body["metadata"])
            if body.get("kind") == "Status":
                _canonical_status(body)
            if body.get("kind") == "Service" and isinstance(body.get("spec"), dict):
                _canonical_addresses(body["spec"])
        return {"code": answer.code, "warnings": list(answer.warnings), "body": body}

    def _canonical_metadata(self, metadata: Document) -> None:
        if "resourceVersion" in metadata:
            revision = metadata["resourceVersion"]
            metadata["resourceVersion"] = self._revisions.get(revision, "<new>")
        for key in ("creationTimestamp", "deletionTimestamp"):
            if _TIME.fullmatch(str(metadata.get(key))):
                metadata[key] = "<time>"
        entries = metadata.get("managedFields")
        if entries:
            keys = [_order(entry) for entry in entries]
            metadata["managedFields"] = {_owner(entry): _untimed(entry) for entry in entries}
            if keys != sorted(keys):
                metadata["managedFields"]["out of order"] = keys


def _order(entry: Document) -> tuple[str, ...]:
    keys = ("operation", "time", "manager", "apiVersion", "subresource")
    return tuple(entry.get(key, "") for key in keys)


def _owner(entry: Document) -> str:
    keys = ("manager", "operation", "apiVersion", "subresource")
    return " ".join(entry.get(key, "") for key in keys)


def _untimed(entry: Document) -> Document:
    return entry | {"time": ""} if "time" in entry else entry


_PATCHED = re.compile(
    r'patch: Invalid value: "(?:[^"\\]|\\.)*"|^Invalid value: "\{(?:[^"\\]|\\.)*"'
)


def _canonical_status(status: Document) -> None:
    """Normalize an error response.

    Conflicts are in the random order of a Go map. Metadata is validated up to four times, so
    causes repeat; a message has each once. The message for an unreadable patch quotes it with all
    its times and resourceVersions.
    """
    status["message"] = _PATCHED.sub("patch: <document>", status.get("message", ""))
    causes = status.get("details", {}).get("causes", [])
    for cause in causes:
        cause["message"] = _PATCHED.sub("<document>", cause.get("message", ""))
    if any(cause.get("reason") == "FieldManagerConflict" for cause in causes):
        causes.sort(key=lambda cause: (cause["message"], cause["field"]))
    if causes:
        status["details"]["causes"] = [
            cause for index, cause in enumerate(causes) if cause not in causes[:index]
        ]


def _canonical_addresses(spec: Document) -> None:
    """Normalize the addresses and ports a server allocated."""
    if spec.get("clusterIP", "").startswith("10."):
        spec["clusterIP"] = "<address>"
        spec["clusterIPs"] = ["<address>" for _ in spec["clusterIPs"]]
    if spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = "<port>"
    for port in spec.get("ports", ()):
        if port.get("nodePort", 0) >= 30000:
            port["nodePort"] = "<port>"


def differences(real: Any, embedded: Any, path: str = "") -> list[str]:
    """Return the differences, one line per place."""
    if isinstance(real, dict) and isinstance(embedded, dict):
        lines = []
        for key in sorted(real.keys() | embedded.keys()):
            where = f"{path}.{key}" if path else key
            if key not in embedded:
                lines.append(f"{where}: real {json.dumps(real[key])}, embedded has none")
            elif key not in real:
                lines.append(f"{where}: real has none, embedded {json.dumps(embedded[key])}")
            else:
                lines += differences(real[key], embedded[key], where)
        return lines
    if isinstance(real, list) and isinstance(embedded, list) and len(real) == len(embedded):
        return [
            line
            for index, (one, other) in enumerate(zip(real, embedded, strict=True))
            for line in differences(one, other, f"{path}[{index}]")
        ]
    if real == embedded and type(real) is type(embedded):
        return []
    return [f"{path}:\n      real     {json.dumps(real)}\n      embedded {json.dumps(embedded)}"]


def signature(request_kind: str, lines: list[str]) -> str:
    """Return the kind of a difference: each is reported once, and shrinking preserves it."""
    first = lines[0].partition(":")[0].partition(".fieldsV1")[0]
    codes = [line for line in lines if line.startswith("code:")]
    text = re.sub(r"\[\d+\]", "[]", first)
    return " ".join([request_kind, text, *re.findall(r"\d{3}", " ".join(codes))])
