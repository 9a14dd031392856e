"""Deployments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.defaults import default_template
from traincrew.local.apiserver.kinds.podspec.templates import (
    default_rolling_update,
    no_deadline,
    replicated,
    warn_of_replicas,
)
from traincrew.local.apiserver.kinds.shared.cells import (
    TEMPLATE_COLUMNS,
    age_of,
    containers_of,
    name_of,
    selector_text,
    template_spec,
)
from traincrew.local.apiserver.kinds.shared.fields import (
    amount,
    at_most_everything,
    immutable,
    int_or_percent,
    non_negative,
)
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Deployment."""
    spec, status = field(obj, "spec"), field(obj, "status")
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(obj, now),
        *containers_of(template_spec(obj)),
        selector_text(spec.get("selector")),
    ]


def _default(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    spec.setdefault("replicas", 1)
    default_rolling_update(spec.setdefault("strategy", {}), maxUnavailable="25%", maxSurge="25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    default_template(spec.get("template"))


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a Deployment."""
    spec = field(obj, "spec")
    non_negative(found, "spec.replicas", spec.get("replicas"))
    replicated(found, spec, "deployment")
    no_deadline(found, spec, "ReplicaSet")
    strategy = field(spec, "strategy")
    kind = strategy.get("type", "RollingUpdate")
    if kind == "Recreate":
        if "rollingUpdate" in strategy:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            found.append(why.forbidden("spec.strategy.rollingUpdate", detail))
    elif kind == "RollingUpdate":
        _rolling(found, field(strategy, "rollingUpdate"), "spec.strategy.rollingUpdate")
    else:
        supported = ("Recreate", "RollingUpdate")
        found.append(why.not_supported("spec.strategy", strategy, supported))
    non_negative(found, "spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    non_negative(found, "spec.progressDeadlineSeconds", deadline)
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        detail = "must be greater than minReadySeconds"
        found.append(why.invalid("spec.progressDeadlineSeconds", deadline, detail))
    if old is not None:
        immutable(found, "spec.selector", spec.get("selector"), field(old, "spec").get("selector"))


def _rolling(found: list[Cause], rolling: Document, path: str) -> None:
    unavailable, surge = rolling.get("maxUnavailable", "25%"), rolling.get("maxSurge", "25%")
    int_or_percent(found, f"{path}.maxUnavailable", unavailable)
    int_or_percent(found, f"{path}.maxSurge", surge)
    if amount(unavailable) == 0 and amount(surge) == 0:
        detail = "may not be 0 when `maxSurge` is 0"
        found.append(why.invalid(f"{path}.maxUnavailable", unavailable, detail))
    at_most_everything(found, f"{path}.maxUnavailable", unavailable)


STRATEGY = Strategy(
    columns=f"Name Ready Up-to-date Available Age {TEMPLATE_COLUMNS}",
    row=_row,
    warn=warn_of_replicas,
    default=_default,
    validate=_validate,
    reset_by_status=("labels",),
)
