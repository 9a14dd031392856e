"""ValidatingAdmissionPolicyBindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of, selector_text
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.names import subdomain_fault

from .matching import default_matching, validate_matching, validate_param_ref

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
        _param(spec.get("paramRef")),
        age_of(obj, now),
    ]


def _param(reference: Document | None) -> str:
    if reference is None:
        return "<unset>"
    if name := reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{name}"
    if (selector := reference.get("selector")) is not None:
        return selector_text(selector)
    return "<unset>"


def _default(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is dict:
        default_matching(spec.get("matchResources"))


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a binding."""
    spec = field(obj, "spec")
    if not (name := spec.get("policyName")):
        found.append(why.required("spec.policyName"))
    elif fault := subdomain_fault(name):
        found.append(why.invalid("spec.policyName", name, fault))
    validate_param_ref(found, spec.get("paramRef"), "spec.paramRef")
    validate_matching(found, spec.get("matchResources"), "spec.matchResources")
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
    default=_default,
    validate=_validate,
)
