"""Why the pods of a gang have no node yet, in the words of their scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.plan.shared import schedulers
from traincrew.plan.shared.gangs import membership

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
    of_group, of_pods = schedulers.waiting(served.name, group.status), _of_pods(pods)
    if served.name == schedulers.KAI:
        # What it says of the group, it says of the pods as well.
        found = [*_taken(group, pods), of_group or of_pods or _unseen(group)]
    else:
        found = [of_group, of_pods]
    return "; ".join(each for each in found if each)


def _taken(group: PodGroupView, pods: Sequence[ObservedPod]) -> list[str]:
    """Say that KAI's podgrouper has put pods into another group than theirs, as before 0.15."""
    for pod in unplaced(pods):
        named = pod.metadata.annotations.get(membership.KAI_ANNOTATION)
        if named and named != group.metadata.name:
            text = (
                f"KAI has put {pod.metadata.name} into the group {named!r} instead of"
                f" {group.metadata.name!r}, so its pods are placed one by one; update KAI to 0.15"
                " or later, which leaves PodGroups of others alone"
            )
            return [text]
    return []


def _unseen(group: PodGroupView) -> str:
    """Say what to look at if KAI says nothing: it leaves groups alone whose queue is unknown."""
    queue = group.spec.get("queue")
    return (
        "KAI has not looked at the group yet; if that lasts, see whether its queue"
        f" {queue!r} exists (kubectl get queues.scheduling.run.ai {queue})"
    )


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
