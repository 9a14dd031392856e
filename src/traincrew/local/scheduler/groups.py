"""Groups of pods: which one a pod belongs to, and what its PodGroup asks for. Pure.

Two kinds of objects describe a group: `scheduling.k8s.io/v1alpha2` PodGroup, which is built in, and
`scheduling.x-k8s.io/v1alpha1` PodGroup, the custom resource of the coscheduling plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from traincrew.engine.resources import POD_GROUPS, Resource
from traincrew.local.scheduler.quantity import amount

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.engine.objects import AnyObject

NATIVE = POD_GROUPS
COSCHEDULING = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
LABEL = "scheduling.x-k8s.io/pod-group"
"""Label of pods: name of their PodGroup of the coscheduling plugin."""

_FINAL = ("Finished", "Failed")


class GroupKey(NamedTuple):
    """Identity of a group: API group of its PodGroup, namespace and name."""

    api: str
    namespace: str
    name: str


class Group(Struct, frozen=True):
    """What a PodGroup asks for.

    Attributes:
        key: Its identity.
        minimum: Number of pods that are placed at once or not at all; 0 if they are placed one by
            one.
        resources: Resource name -> amount that all nodes together must have free for it.
        problem: Why none of its pods can be placed, such as a missing PodGroup; usually empty.
    """

    key: GroupKey
    minimum: int = 0
    resources: dict[str, int] = field(default_factory=dict)
    problem: str = ""


def membership(pod: AnyObject) -> GroupKey | None:
    """Return the group that a pod names; `spec.schedulingGroup` has precedence over the label."""
    named = (pod.spec.get("schedulingGroup") or {}).get("podGroupName")
    if named:
        return GroupKey(NATIVE.group, pod.metadata.namespace, named)
    label = pod.metadata.labels.get(LABEL)
    if label:
        return GroupKey(COSCHEDULING.group, pod.metadata.namespace, label)
    return None


def missing(key: GroupKey) -> Group:
    """Return a group whose PodGroup does not exist."""
    if key.api == NATIVE.group:
        text = f'waiting for pods\'s pod group "{key.name}" to appear in scheduling queue'
    else:
        text = f"PodGroup {key.namespace}/{key.name} not found"
    return Group(key, problem=text)


def read(key: GroupKey, found: AnyObject) -> Group:
    """Read a PodGroup."""
    spec = found.spec
    if key.api == NATIVE.group:
        gang = (spec.get("schedulingPolicy") or {}).get("gang") or {}
        return Group(key, int(gang.get("minCount") or 0))
    try:
        resources = {
            name: amount(name, value) for name, value in (spec.get("minResources") or {}).items()
        }
        minimum = int(spec.get("minMember") or 0)
    except (TypeError, ValueError) as error:
        problem = f"PodGroup {key.namespace}/{key.name}: spec cannot be read: {error}"
        return Group(key, problem=problem)
    return Group(key, minimum, resources)


def too_few(group: Group, number: int) -> str:
    """Return the message for a group with fewer pods than its minimum, as upstream says it."""
    if group.key.api == NATIVE.group:
        return "waiting for minCount pods from a gang to appear in scheduling queue"
    return (
        f"cannot find enough sibling pods, current pods number: {number}, "
        f"minMember of group: {group.minimum}"
    )


def does_not_fit(group: Group, fitting: int, reason: str) -> str:
    """Return the message for a group whose minimum does not fit.

    Args:
        group: The group.
        fitting: Number of its pods that have a node or would fit now.
        reason: Why one of the others fits on no node.
    """
    pods = "1 pod fits" if fitting == 1 else f"{fitting} pods fit"
    field_name = "minCount" if group.key.api == NATIVE.group else "minMember"
    return (
        f'pod group "{group.key.name}" is unschedulable: {pods} at once, '
        f"{field_name} is {group.minimum}. {reason}"
    )


def native_condition(found: AnyObject, message: str, now: str) -> dict[str, Any] | None:
    """Return the condition `PodGroupScheduled` to write, or None if it would not change.

    A group that has been scheduled stays so: it is not undone if it loses a pod.

    Args:
        found: The PodGroup.
        message: Why its minimum is not scheduled; empty if it is.
        now: Current time.
    """
    fresh: dict[str, Any] = {
        "type": "PodGroupScheduled",
        "status": "False" if message else "True",
        "reason": "Unschedulable" if message else "Scheduled",
        "message": message,
        "lastTransitionTime": now,
        "observedGeneration": found.metadata.generation,
    }
    for known in found.status.get("conditions") or ():
        if known.get("type") == fresh["type"]:
            if known.get("status") == "True":
                return None
            if known.get("status") == fresh["status"]:
                fresh["lastTransitionTime"] = known.get("lastTransitionTime") or now
            if all(known.get(key) == fresh[key] for key in ("status", "reason", "message")):
                return None
    return fresh


def coscheduling_status(found: AnyObject, pods: Iterable[AnyObject]) -> dict[str, Any] | None:
    """Return the status of a PodGroup of the coscheduling plugin; None if it would not change.

    Rules: the PodGroup controller of kubernetes-sigs/scheduler-plugins 0.33, whose phases
    `Finished` and `Failed` are final, and which does not look at nodes.

    Args:
        found: The PodGroup.
        pods: All pods of the group, those that ended included.
    """
    status, members = found.status, list(pods)
    phase = status.get("phase") or "Pending"
    if phase in _FINAL:
        return None
    minimum = int(found.spec.get("minMember") or 0)
    phases = [pod.status.get("phase", "Pending") for pod in members]
    running, succeeded, failed = (phases.count(x) for x in ("Running", "Succeeded", "Failed"))
    fresh: dict[str, Any] = {}
    if len(phases) < minimum:
        fresh["phase"] = "Pending"
    elif succeeded >= minimum:
        fresh["phase"] = "Finished"
    elif failed and running + succeeded + failed >= minimum:
        fresh["phase"] = "Failed"
    elif running + succeeded >= minimum:
        fresh["phase"] = "Running"
    else:
        fresh["phase"] = "Scheduling"
    counts = {"running": running, "succeeded": succeeded, "failed": failed}
    fresh |= {key: number for key, number in counts.items() if number or status.get(key)}
    if members and phase == "Pending" and fresh["phase"] != "Pending":
        owners = members[0].metadata.owner_references
        if names := sorted(f"{members[0].metadata.namespace}/{each.name}" for each in owners):
            fresh["occupiedBy"] = ",".join(names)
    return fresh if any(status.get(key) != value for key, value in fresh.items()) else None
