"""Namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.shared.defaults import default_phase
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy, Subresource
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.selectors import FieldLabels

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Namespace."""
    return [name_of(obj), field(obj, "status").get("phase", ""), age_of(obj, now)]


def _default(obj: Document) -> None:
    metadata = obj.get("metadata")
    if type(metadata) is dict and metadata.get("name"):
        labels = metadata["labels"] = metadata.get("labels") or {}
        if type(labels) is dict:
            labels["kubernetes.io/metadata.name"] = metadata["name"]
    spec = obj.setdefault("spec", {})
    if type(spec) is dict and "deletionTimestamp" not in field(obj, "metadata"):
        spec.setdefault("finalizers", ["kubernetes"])
    default_phase(obj, "Active")


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "",
            "v1",
            "namespaces",
            "Namespace",
            namespaced=False,
            short_names=("ns",),
            verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
            status=True,
            subresources=(Subresource("finalize", "Namespace", ("update",)),),
        ),
    ),
    selectable=FieldLabels.of("status.phase"),
    columns="Name Status Age",
    row=_row,
    default=_default,
)
