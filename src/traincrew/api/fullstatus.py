"""The status of a job whose definition has no room for all of it.

The API server drops the fields of a status that the definition does not declare. The definitions of
other projects declare what their own operators store, and are never changed. What they drop is
stored in an annotation of the job (docs/design/todays-manifests.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from traincrew.api.meta import CustomObject

if TYPE_CHECKING:
    from collections.abc import Mapping

ANNOTATION = "traincrew.dev/status"
"""Annotation with the fields of the status that the definition drops."""


class _Stored(Struct):
    """The annotation's value."""

    uid: str = ""
    """That of the job: a manifest that was copied from a cluster has the annotation as well."""
    status: dict[str, Any] = {}


_DECODER = msgspec.json.Decoder(_Stored)


def pruned(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return what an API server stores of a value.

    Args:
        value: Plain data.
        schema: Its structural schema, as in a CustomResourceDefinition
            (Kubernetes documentation, "Field pruning").
    """
    if isinstance(value, list):
        inner = schema.get("items")
        return [pruned(each, inner) for each in value] if isinstance(inner, dict) else value
    if not isinstance(value, dict):
        return value
    known, others = schema.get("properties") or {}, schema.get("additionalProperties")
    everything = bool(others) or schema.get("x-kubernetes-preserve-unknown-fields") is True
    kept = {}
    for name, each in value.items():
        if name in known:
            kept[name] = pruned(each, known[name])
        elif isinstance(others, dict):
            kept[name] = pruned(each, others)
        elif everything:
            kept[name] = each
    return kept


def annotation(uid: str, status: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    """Return the annotation's value for a status of which less is stored; empty if all of it is.

    Args:
        uid: UID of the job.
        status: The status.
        stored: What an API server stores of it.
    """
    rest = {name: each for name, each in status.items() if stored.get(name) != each}
    if not rest:
        return ""
    return msgspec.json.encode(_Stored(uid, rest), order="deterministic").decode()


def restored(text: str | None, uid: str) -> dict[str, Any]:
    """Return the fields of a job's status that are in its annotation.

    Users may write annotations: a value that nobody can read, or of another job, has none.

    Args:
        text: The annotation's value, if there is one.
        uid: UID of the job.
    """
    if not text:
        return {}
    try:
        found = _DECODER.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return {}
    return found.status if found.uid == uid else {}


class ProjectJob(CustomObject, frozen=True, gc=False, kw_only=True):
    """A job of another project's kind; its status includes what its annotation has."""

    stored_status: dict[str, Any] | None = None
    """The status without that."""

    def __post_init__(self) -> None:
        """Add the fields of the annotation."""
        if self.stored_status is not None:
            return  # a copy
        force_setattr(self, "stored_status", self.status)
        if more := restored(self.metadata.annotations.get(ANNOTATION), self.metadata.uid):
            force_setattr(self, "status", {**self.status, **more})
