"""MutatingAdmissionPolicyBindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values.documents import field

from .matching import default_binding, mutable_operations, shown_parameter, validate_binding

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a binding."""
    spec = field(obj, "spec")
    cells = [spec.get("policyName", ""), shown_parameter(spec)]
    return [name_of(obj), *cells, age_of(obj, now)]


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a binding."""
    spec = field(obj, "spec")
    validate_binding(found, spec)
    mutable_operations(found, field(spec, "matchResources"), "spec.matchResources")


STRATEGY = Strategy(
    columns="Name PolicyName ParamRef Age",
    row=_row,
    default=default_binding,
    validate=_validate,
)
