"""Namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.shared.defaults import default_phase
from traincrew.local.apiserver.kinds.strategy import (
    Strategy,
    WriteContext,
)
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.names import label_fault, qualified_name_fault
from traincrew.local.apiserver.values.selectors import FieldLabels

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
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


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a Namespace."""
    for finalizer in field(obj, "spec").get("finalizers") or ():
        fault = qualified_name_fault(finalizer)
        if fault:
            found.append(why.invalid("spec.finalizers", finalizer, fault))
        elif "/" not in finalizer and finalizer != "kubernetes":
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(why.invalid("spec.finalizers", finalizer, detail))


def _prepare_create(_context: WriteContext, new: Document) -> None:
    name = new["metadata"]["name"]
    new["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    spec = new.setdefault("spec", {})
    finalizers = spec.setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    new["status"] = {"phase": "Active"}


def _prepare_update(
    _context: WriteContext, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    # Only the finalize subresource removes finalizers.
    new.setdefault("spec", {})["finalizers"] = old["spec"].get("finalizers", [])
    labels = new["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = new["metadata"]["name"]


STRATEGY = Strategy(
    selectable=FieldLabels.of("status.phase"),
    columns="Name Status Age",
    row=_row,
    default=_default,
    validate=_validate,
    name_fault=label_fault,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    spec_finalizers=True,
    undeletable=frozenset({"default", "kube-system", "kube-public"}),
)
