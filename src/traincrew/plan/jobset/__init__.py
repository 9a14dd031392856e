"""JobSet: Jobs that start, fail and restart as one, and a Service for the names of their pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.jobset.definition import DEFINITION
from traincrew.plan.jobset.children import (
    COMPONENT,
    LABEL_INDEX,
    LABEL_NAME,
    LABEL_POD_INDEX,
    LABEL_REPLICAS,
    LABEL_REPLICATED,
)
from traincrew.plan.jobset.planner import plan
from traincrew.plan.jobset.views import REPLICATED_JOBS
from traincrew.plan.shared.kind import CLAIMS, SERVICES, PlannedKind, PodPlace, Reference

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["KIND"]


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def _has_peers(spec: dict[str, Any]) -> bool:
    network = spec.get("network")
    return not isinstance(network, dict) or network.get("enableDNSHostnames") is not False


def _roles(spec: dict[str, Any]) -> dict[str, int]:
    found = {}
    for each in spec.get("replicatedJobs") or ():
        if not isinstance(each, dict):
            continue
        template = each.get("template")
        job = template.get("spec") if isinstance(template, dict) else None
        job = job if isinstance(job, dict) else {}
        at_once = _number(job.get("parallelism"), 1)
        at_once = min(at_once, _number(job.get("completions"), at_once))
        found[str(each.get("name", ""))] = _number(each.get("replicas"), 1) * at_once
    return found


def _place(labels: Mapping[str, str]) -> PodPlace:
    """Return the place of a pod: with several Jobs, pods of the same index are counted first."""
    job, pod, count = (
        int(given) if (given := labels.get(name, "")).isdecimal() else 0
        for name in (LABEL_INDEX, LABEL_POD_INDEX, LABEL_REPLICAS)
    )
    return PodPlace(labels.get(LABEL_REPLICATED, ""), pod * max(count, 1) + job)


KIND = PlannedKind(
    definition=DEFINITION,
    component=COMPONENT,
    label=LABEL_NAME,
    children=(SERVICES, CLAIMS, REPLICATED_JOBS),
    deletes=(REPLICATED_JOBS,),
    # Claims that are there, of the JobSet or kept of an earlier one.
    references=(Reference(CLAIMS.group, CLAIMS.version, CLAIMS.plural, CLAIMS.kind),),
    plan=plan,
    has_peers=_has_peers,
    roles=_roles,
    place=_place,
)
