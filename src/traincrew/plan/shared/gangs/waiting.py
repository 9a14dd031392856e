"""Why the pods of a gang have no node yet, in the words of their scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.plan.shared import schedulers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.plan.shared.schedulers import Gang, Served
    from traincrew.plan.shared.views import ObservedPod, PodGroupView

_NODES = "nodes are available"
"""In the message of a pod for which kube-scheduler has looked at nodes; others of its gang only say
that they wait for it."""

_NO_SCHEDULER = "NoScheduler"
"""Reason of the embedded cluster for a pod that no scheduler looks after: others do not matter."""


def unplaced(pods: Sequence[ObservedPod]) -> list[ObservedPod]:
    """Return the pods that wait for a node."""
    return [pod for pod in pods if not pod.spec.node_name and pod.status.phase == "Pending"]


def members(pods: Sequence[ObservedPod]) -> int:
    """Return the number of pods that schedulers count as members of a group.

    The schedulers of Kubernetes and of the coscheduling plugin do not see pods that have ended.
    """
    return sum(not pod.finished for pod in pods)


def why(served: Served, group: PodGroupView, gang: Gang, pods: Sequence[ObservedPod]) -> str:
    """Return why pods of a gang wait; empty if nobody has said it yet.

    Args:
        served: The scheduler.
        group: The PodGroup.
        gang: What is asked for.
        pods: The pods of the job.
    """
    stored, count = schedulers.size_of(served, group.spec), members(pods)
    if not served.is_resizable and gang.size <= count < stored:
        # Pods that are held back for this reason have no condition that says so.
        return (
            f"the PodGroup is of {stored} pods, there are {count}, and its size cannot be changed"
            " in this version of Kubernetes; suspend the job and resume it"
        )
    found = [schedulers.waiting(served.name, group.status), _of_pods(pods)]
    return "; ".join(each for each in found if each)


def _of_pods(pods: Sequence[ObservedPod]) -> str:
    """Return the most telling of the messages of pods that are unschedulable."""
    said = [
        f"{pod.metadata.name}: {condition.message}"
        for pod in sorted(unplaced(pods), key=lambda each: each.metadata.name)
        for condition in pod.status.conditions
        if (condition.type, condition.status) == ("PodScheduled", "False")
        and condition.message
        and condition.reason != _NO_SCHEDULER
    ]
    return next((each for each in said if _NODES in each), said[0] if said else "")
