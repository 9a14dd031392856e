"""ValidatingAdmissionPolicies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.shared.conditions import changed_conditions
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values.documents import field

from .expressions import validate_expressions
from .matching import default_policy, shown_kind, validate_policy

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a policy."""
    spec = field(obj, "spec")
    return [name_of(obj), len(spec.get("validations") or ()), shown_kind(spec), age_of(obj, now)]


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a policy; one whose spec has not changed is not compiled again."""
    changed_conditions(found, obj, old)
    spec = field(obj, "spec")
    if old is not None and field(old, "spec") == spec:
        return
    validate_policy(found, spec)
    validate_expressions(found, obj, spec)


STRATEGY = Strategy(
    columns="Name Validations:integer ParamKind Age",
    row=_row,
    default=default_policy,
    validate=_validate,
)
