"""PodGroups: pods that are scheduled together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.scheduling.policies import (
    drop_gated,
    required_name,
    scheduling_policy,
)
from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.shared.fields import immutable
from traincrew.local.apiserver.kinds.strategy import Strategy, WriteContext
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.names import label_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a PodGroup."""
    policy = field(field(obj, "spec"), "schedulingPolicy")
    gang = policy.get("gang")
    scheduled = next(
        (
            condition.get("status", "")
            for condition in field(obj, "status").get("conditions") or ()
            if condition.get("type") == "PodGroupScheduled"
        ),
        "Unknown",
    )
    return [
        name_of(obj),
        "Basic" if gang is None else "Gang",
        "" if gang is None else str(gang.get("minCount", 0)),
        scheduled,
        age_of(obj, now),
    ]


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a PodGroup."""
    spec = field(obj, "spec")
    reference = spec.get("podGroupTemplateRef")
    if old is not None:
        before = field(old, "spec")
        for key in ("podGroupTemplateRef", "schedulingPolicy"):
            immutable(found, f"spec.{key}", spec.get(key), before.get(key))
        return
    scheduling_policy(found, spec, "spec")
    if reference is not None:
        workload = reference.get("workload")
        if workload is None:
            detail = "must specify one of: `workload`"
            found.append(why.invalid("spec.podGroupTemplateRef", "", detail))
            return
        for key in ("workloadName", "podGroupTemplateName"):
            value = workload.get(key, "")
            path = f"spec.podGroupTemplateRef.workload.{key}"
            required_name(found, path, value, label_fault(value))


def _prepare_create(_context: WriteContext, new: Document) -> None:
    drop_gated(new["spec"])


def _prepare_update(
    _context: WriteContext, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    drop_gated(new["spec"], old["spec"])


STRATEGY = Strategy(
    columns="Name Policy Min-Count Scheduled Age",
    row=_row,
    validate=_validate,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
)
