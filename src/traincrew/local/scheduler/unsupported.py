"""What a pod asks of a scheduler that this one does not do; each is told once. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.engine.objects import AnyObject
    from traincrew.local.scheduler.priorities import Priorities

REASON = "NotEmulated"
DEFAULT_SCHEDULER = "default-scheduler"


def not_emulated(pod: AnyObject, priorities: Priorities) -> list[str]:
    """Sentences that name the field and what happens instead."""
    spec = pod.spec
    told = []
    name = spec.get("schedulerName") or DEFAULT_SCHEDULER
    if name != DEFAULT_SCHEDULER:
        told.append(
            f'spec.schedulerName: the embedded cluster has no scheduler "{name}"; the built-in '
            "one places this pod, by itself and not together with its group"
        )
    if not priorities.is_known(pod):
        told.append(
            f'spec.priorityClassName: no PriorityClass "{spec.get("priorityClassName")}" exists; '
            "the pod has priority 0"
        )
    for field, instead in (
        ("resourceClaims", "devices are not allocated; ask for them in resources.limits"),
        ("schedulingGroup", "the pod is placed by itself, not together with its group"),
    ):
        if spec.get(field):
            told.append(f"spec.{field}: not emulated by the embedded cluster; {instead}")
    return told


def no_preemption(pod: AnyObject) -> str:
    """Told when less important pods are in the way of an important one."""
    field = "priorityClassName" if pod.spec.get("priorityClassName") else "priority"
    return (
        f"spec.{field}: the embedded cluster does not preempt; less important pods keep running "
        "and this one waits for room"
    )
