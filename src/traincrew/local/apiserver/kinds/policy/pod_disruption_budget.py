"""PodDisruptionBudgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.shared.conditions import changed_conditions
from traincrew.local.apiserver.kinds.shared.fields import at_most_everything, int_or_percent
from traincrew.local.apiserver.kinds.shared.meta import label_selector
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.schema.unversioned import form
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a PodDisruptionBudget."""
    spec = field(obj, "spec")
    return [
        name_of(obj),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        field(obj, "status").get("disruptionsAllowed", 0),
        age_of(obj, now),
    ]


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a PodDisruptionBudget."""
    changed_conditions(found, obj, old)
    spec = field(obj, "spec")
    if "minAvailable" in spec and "maxUnavailable" in spec:
        detail = "minAvailable and maxUnavailable cannot be both set"
        shown = form("policy.PodDisruptionBudgetSpec", spec)
        found.append(why.invalid("spec", shown, detail))
    for key in ("minAvailable", "maxUnavailable"):
        if key in spec:
            int_or_percent(found, f"spec.{key}", spec[key])
            at_most_everything(found, f"spec.{key}", spec[key])
    label_selector(found, spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    supported = ("AlwaysAllow", "IfHealthyBudget")
    if policy is not None and policy not in supported:
        found.append(why.not_supported("spec.unhealthyPodEvictionPolicy", policy, supported))


STRATEGY = Strategy(
    columns="Name Min_Available Max_Unavailable Allowed_Disruptions:integer Age",
    row=_row,
    validate=_validate,
)
