"""The request of an AdmissionReview, as webhooks are sent it and policies see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.requests.proposals import AdmissionAnswers, Proposal
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["admission_request", "connect_options", "identity_fault", "with_metadata"]

_OPTIONS = {
    "CREATE": "CreateOptions",
    "UPDATE": "UpdateOptions",
    "DELETE": "DeleteOptions",
    "CONNECT": "",
}
_FLAGS = ("stdin", "stdout", "stderr", "tty")


def admission_request(
    call: Call, resource: ResourceType, answers: AdmissionAnswers, proposal: Proposal
) -> Document:
    """Return the request of an AdmissionReview, without its UID."""
    shown = proposal.new if proposal.new is not None else proposal.old
    assert shown is not None
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    plural = {
        "group": resource.group, "version": resource.version, "resource": resource.plural
    }  # fmt: skip
    name = shown["metadata"].get("name", "")
    namespace = shown["metadata"].get("namespace", "")
    part = call.target.subresource
    subresource = {"subResource": part, "requestSubResource": part} if part else {}
    options = {"kind": _OPTIONS[proposal.operation], "apiVersion": "meta.k8s.io/v1"}
    return {
        "kind": kind,
        "resource": plural,
        "requestKind": kind,
        "requestResource": plural,
        **subresource,
        "name": name,
        "namespace": name if resource.identifier == "namespaces" else namespace,
        "operation": proposal.operation,
        "userInfo": call.user,
        "object": proposal.new,
        "oldObject": proposal.old,
        "dryRun": answers.dry_run,
        "options": options,
    }


def connect_options(call: Call, kind: str) -> Document:
    """Return what a CONNECT is about: its options, of this kind."""
    document: Document = {"kind": kind, "apiVersion": "v1", "metadata": {}}
    document |= {flag: True for flag in _FLAGS if call.flag(flag)}
    document |= {"container": call.text("container")} if call.text("container") else {}
    document |= {"command": call.query["command"]} if "command" in call.query else {}
    return document


def with_metadata(document: Document) -> Document:
    """Return a document that was not checked, with metadata and labels of the right types."""
    metadata = document.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, dict) else {}
    labels = metadata.pop("labels", None)
    if isinstance(labels, dict):
        metadata["labels"] = {key: value for key, value in labels.items() if type(value) is str}
    return {**document, "metadata": metadata}


def identity_fault(before: Document, after: Any) -> str:
    """Return what a mutation does that it must not; empty if it leaves the same object."""
    metadata = after.get("metadata") if isinstance(after, dict) else None
    if not isinstance(metadata, dict):
        return "leaves no object"
    for field in ("apiVersion", "kind"):
        if after.get(field) != before.get(field):
            return f"changes {field}"
    for field in ("name", "namespace", "uid"):
        if metadata.get(field) != before["metadata"].get(field):
            return f"changes metadata.{field}"
    return ""
