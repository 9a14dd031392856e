"""Fields of a pod that the scheduler does not support; each is reported once. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.engine.objects import AnyObject
    from traincrew.local.scheduler.priorities import Priorities

REASON = "NotEmulated"
DEFAULT_SCHEDULER = "default-scheduler"
NO_SCHEDULER = "NoScheduler"
"""Reason of the condition of a pod whose scheduler does not react."""


def scheduler_of(pod: AnyObject) -> str:
    """Return the name of the scheduler that is to place a pod."""
    return str(pod.spec.get("schedulerName") or DEFAULT_SCHEDULER)


def unclaimed(pod: AnyObject) -> str:
    """Return the message for a pod whose scheduler does not react."""
    name = scheduler_of(pod)
    return (
        f'spec.schedulerName: no scheduler "{name}" looks after this pod; run one, start the '
        f"cluster with --scheduler-name {name} to have the built-in scheduler place it, or remove "
        "the field"
    )


def not_emulated(pod: AnyObject, priorities: Priorities, *, grouped: bool = False) -> list[str]:
    """Return messages that name the field and what happens instead.

    Args:
        pod: The pod.
        priorities: The priority classes.
        grouped: Whether it is placed with its group.
    """
    spec = pod.spec
    messages = []
    name = scheduler_of(pod)
    if name != DEFAULT_SCHEDULER and not grouped:
        messages.append(
            f"spec.schedulerName: the built-in scheduler stands in for {name}; it places this pod "
            "by itself, not together with its group"
        )
    if not priorities.is_known(pod):
        messages.append(
            f'spec.priorityClassName: no PriorityClass "{spec.get("priorityClassName")}" exists; '
            "the pod has priority 0"
        )
    if spec.get("resourceClaims"):
        messages.append(
            "spec.resourceClaims: not emulated by the embedded cluster; devices are not allocated; "
            "ask for them in resources.limits"
        )
    return messages


def no_preemption(pod: AnyObject) -> str:
    """Return the message for a pod that would have to preempt others."""
    field = "priorityClassName" if pod.spec.get("priorityClassName") else "priority"
    return (
        f"spec.{field}: the embedded cluster does not preempt; less important pods keep running "
        "and this one waits for room"
    )
