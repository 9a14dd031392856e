"""PodGroups: pods that are scheduled together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.scheduling.policies import (
    drop_gated,
    required_name,
    scheduling_policy,
    unchanged,
)
from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.shared.conditions import changed_conditions
from traincrew.local.apiserver.kinds.strategy import Strategy, WriteContext
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.errors import forbidden
from traincrew.local.apiserver.values.names import label_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]

PROTECTION = "scheduling.k8s.io/podgroup-protection"
"""Finalizer of every PodGroup; removed when no pod names it that has not ended."""
_WORKLOADS = "workloads.scheduling.k8s.io"


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a PodGroup."""
    spec = field(obj, "spec")
    gang = field(spec, "schedulingPolicy").get("gang")
    template = field(field(spec, "podGroupTemplateRef"), "workload")
    conditions = {each.get("type"): each for each in field(obj, "status").get("conditions") or ()}
    status = "Pending"
    if "PodGroupScheduled" in conditions:
        scheduled = conditions["PodGroupScheduled"].get("status") == "True"
        status = "Scheduled" if scheduled else "Unschedulable"
    if "DisruptionTarget" in conditions:
        status = conditions["DisruptionTarget"].get("reason", "")
    return [
        name_of(obj),
        "Basic" if gang is None else "Gang",
        template.get("workloadName", "<none>"),
        status,
        age_of(obj, now),
    ]


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a PodGroup."""
    changed_conditions(found, obj, old)
    spec = field(obj, "spec")
    reference = spec.get("podGroupTemplateRef")
    if old is not None:
        unchanged(found, spec, field(old, "spec"), "podGroupTemplateRef", "schedulingPolicy")
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


def _prepare_create(context: WriteContext, new: Document) -> None:
    drop_gated(new["spec"])
    _check_template(context.storage, new)
    # Upstream's admission plugin PodGroupProtection.
    finalizers = new["metadata"].get("finalizers") or []
    if PROTECTION not in finalizers:
        new["metadata"]["finalizers"] = [*finalizers, PROTECTION]


def _check_template(storage: Storage, new: Document) -> None:
    """Refuse a PodGroup that names a template that does not exist.

    Rules: upstream's admission plugin `PodGroupWorkloadExists`.

    Raises:
        StatusError: 403; the message names what is missing.
    """
    reference = field(field(new["spec"], "podGroupTemplateRef"), "workload")
    workload, template = reference.get("workloadName"), reference.get("podGroupTemplateName")
    if not workload or not template:
        return  # the rules say so
    entry = storage.get(_WORKLOADS, (new["metadata"].get("namespace", ""), workload))
    if entry is None:
        problem = f'Workload "{workload}" not found'
    elif entry.obj["metadata"].get("deletionTimestamp"):
        problem = f'Workload "{workload}" is being deleted'
    elif all(each.get("name") != template for each in entry.obj["spec"]["podGroupTemplates"]):
        problem = f'PodGroupTemplate "{template}" not found in Workload "{workload}"'
    else:
        return
    name = new["metadata"].get("name", "")
    raise forbidden("podgroups", "scheduling.k8s.io", name, f"PodGroup rejected: {problem}")


def _prepare_update(
    _context: WriteContext, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    drop_gated(new["spec"], old["spec"])


STRATEGY = Strategy(
    columns="Name Policy Workload Status Age",
    row=_row,
    validate=_validate,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
)
