"""ValidatingAdmissionPolicyBindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field

from .matching import default_binding, shown_parameter, validate_binding

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]

_ACTIONS = ("Audit", "Deny", "Warn")


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a binding."""
    spec = field(obj, "spec")
    return [
        name_of(obj),
        spec.get("policyName", ""),
        shown_parameter(spec),
        age_of(obj, now),
    ]


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a binding."""
    spec = field(obj, "spec")
    validate_binding(found, spec)
    _actions(found, spec.get("validationActions") or [], "spec.validationActions")


def _actions(found: list[Cause], actions: list[str], path: str) -> None:
    known: set[str] = set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            found.append(why.not_supported(f"{path}[{index}]", action, _ACTIONS))
        if action in known:
            found.append(why.duplicate(f"{path}[{index}]", action))
        known.add(action)
    if {"Deny", "Warn"} <= known:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information"
            " in the API response and headers serves no purpose)"
        )
        found.append(why.invalid(path, actions, detail))
    if not actions:
        found.append(why.required(path, "at least one validation action is required"))


STRATEGY = Strategy(
    columns="Name PolicyName ParamRef Age",
    row=_row,
    default=default_binding,
    validate=_validate,
)
