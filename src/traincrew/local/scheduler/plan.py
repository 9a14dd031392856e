"""Assignment of pods to nodes: (pending pods, cluster) -> assignments and failures. Pure.

One call schedules all pending pods, by priority; each assignment counts for the next ones.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.local.controllers.placement import matches_term, untolerated
from traincrew.local.scheduler.filters import why_not
from traincrew.local.scheduler.gangs import is_placed_one_by_one, place_gang
from traincrew.local.scheduler.groups import membership
from traincrew.local.scheduler.neighbours import PREFERRED, Neighbourhood
from traincrew.local.scheduler.outcomes import Assignment, Failure, Plan
from traincrew.local.scheduler.state import info_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traincrew.engine.objects import AnyObject
    from traincrew.local.scheduler.groups import Group, GroupKey
    from traincrew.local.scheduler.state import ClusterState, NodeState, PodInfo


def place(
    pending: Iterable[AnyObject],
    state: ClusterState,
    priority: Callable[[AnyObject], int],
    missing: Callable[[AnyObject], str] = lambda _: "",
    groups: Callable[[AnyObject], Group | None] = lambda _: None,
) -> Plan:
    """Assign every pending pod, or report why it cannot be.

    Pods of a group take their turn with its first pod. Its minimum is assigned at once or not at
    all; once that many of its pods are on nodes, the others are assigned one by one.

    Args:
        pending: Pods without a node, in the order of their arrival. They are sorted by priority,
            then by age; those created in the same second keep their order.
        state: Nodes and their used resources; updated with the assignments.
        priority: Returns the priority of a pod.
        missing: Returns why a pod fits on no node, such as a volume claim that does not exist;
            empty if there is no such reason.
        groups: Returns the group of a pod, or None.
    """
    turn = Round(state, priority, missing)
    members: dict[GroupKey, list[AnyObject]] = {}
    asked: dict[GroupKey, Group] = {}
    at_once: set[GroupKey] = set()
    ordered = sorted(pending, key=lambda pod: (-priority(pod), pod.metadata.creation_timestamp))
    for pod in ordered:
        group = groups(pod)
        if group is not None:
            asked[group.key] = group
            members.setdefault(group.key, []).append(pod)
    for pod in ordered:
        group = groups(pod) if members else None
        if group is not None and group.key in at_once:
            continue
        if group is None or is_placed_one_by_one(group, state):
            turn.keep(turn.attempt(pod))
        else:
            at_once.add(group.key)
            place_gang(turn, group, members[group.key])
    turn.end(asked.values())
    return turn.plan


class Round:
    """The decisions of one call, each of which counts for the next ones.

    Args:
        state: Nodes and their used resources.
        priority: Returns the priority of a pod.
        missing: Returns why a pod fits on no node; empty if there is no such reason.
    """

    def __init__(
        self,
        state: ClusterState,
        priority: Callable[[AnyObject], int],
        missing: Callable[[AnyObject], str],
    ) -> None:
        self.state, self.priority = state, priority
        self.plan = Plan()
        self.known: dict[bytes, Failure] = {}
        """Failures by what they depend on: pods that are alike need not be tried again."""
        self.reserved: list[str] = []
        """UIDs of pods that count in this round only: their room is not free yet."""
        self._missing = missing

    def attempt(self, pod: AnyObject) -> Assignment | Failure:
        """Assign a pod in the state, or return why it fits on no node."""
        try:
            info = info_of(pod)
        except ValueError as error:
            return Failure(pod, f"spec.containers[].resources: {error}")
        absent = self._missing(pod)
        signature = _signature(info, self.priority(pod), absent)
        known = self.known.get(signature) if signature else None
        if known is not None:
            return Failure(pod, known.message, known.would_preempt)
        chosen = _choose(info, self.state, absent)
        if isinstance(chosen, str):
            failure = Failure(pod, chosen, _would_preempt(info, self.state, self.priority))
            if signature:
                self.known[signature] = failure
            return failure
        self.state.set_pod(pod, chosen.name)
        return Assignment(pod, chosen.name)

    def keep(self, *results: Assignment | Failure) -> None:
        """Add results to the plan."""
        for result in results:
            if isinstance(result, Assignment):
                self.plan.assignments.append(result)
            else:
                self.plan.failures.append(result)

    def end(self, groups: Iterable[Group]) -> None:
        """Give back what is reserved, and say which groups are scheduled."""
        for uid in self.reserved:
            self.state.drop_pod(uid)
        waiting = {
            group.key for group in groups if self.state.standing(group.key) < max(1, group.minimum)
        }
        for failure in self.plan.failures if waiting else ():
            key = membership(failure.pod)
            if key is not None and key in waiting:
                self.plan.groups.setdefault(key, failure.message)


def _signature(info: PodInfo, priority: int, absent: str) -> bytes:
    """Return a key that is equal for equivalent pods; empty if other pods matter.

    Assignments only use up resources, so a pod that did not fit will not fit later in the same
    call, unless it waits for another pod to be placed.
    """
    spec = info.pod.spec
    if (spec.get("affinity") or {}).get("podAffinity") or spec.get("topologySpreadConstraints"):
        return b""
    return msgspec.json.encode(
        [
            info.namespace,
            info.pod.metadata.labels,
            info.requests,
            sorted(info.ports),
            spec.get("nodeName"),
            spec.get("nodeSelector"),
            spec.get("affinity"),
            spec.get("tolerations"),
            priority,
            absent,
        ],
        order="deterministic",
    )


def _choose(info: PodInfo, state: ClusterState, absent: str) -> NodeState | str:
    """Return the best node, or why there is none."""
    nodes = state.nodes()
    if not nodes:
        return "no nodes available to schedule pods"
    if absent:
        return f"0/{len(nodes)} nodes are available: {absent}."
    neighbourhood = Neighbourhood(info, state, nodes)
    reasons: Counter[str] = Counter()
    feasible = []
    for node in nodes:
        against = why_not(info, node) or neighbourhood.why_not(node)
        if against:
            reasons.update(against)
        else:
            feasible.append(node)
    if not feasible:
        counted = sorted(f"{number} {reason}" for reason, number in reasons.items())
        return f"0/{len(nodes)} nodes are available: {', '.join(counted)}."
    if len(feasible) == 1:
        return feasible[0]
    return max(feasible, key=lambda node: _score(info, node, neighbourhood))


def _score(info: PodInfo, node: NodeState, neighbourhood: Neighbourhood) -> tuple[float, ...]:
    """Return a score, compared from left to right: preferences of the manifest, then spread."""
    spec = info.pod.spec
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    preferred = sum(
        int(item.get("weight", 1))
        for item in affinity.get(PREFERRED) or ()
        if matches_term(item.get("preference") or {}, node)
    )
    shunned = untolerated(spec.get("tolerations") or (), node.taints, {"PreferNoSchedule"})
    return (
        -float(shunned is not None),
        preferred + neighbourhood.preference(node),
        -(node.owners[info.owner] if info.owner else 0),
        _free_share(info, node),
        -len(node.pods),
    )


def _free_share(info: PodInfo, node: NodeState) -> float:
    """Return the average free fraction of the requested resources (`LeastAllocated`)."""
    resources = {"cpu", "memory", *info.requests}
    shares = [
        (node.free(resource) - info.requests.get(resource, 0)) / total
        for resource in resources
        if (total := node.allocatable.get(resource, 0)) > 0
    ]
    return round(sum(shares) / len(shares), 6) if shares else 0.0


def _would_preempt(
    info: PodInfo, state: ClusterState, priority: Callable[[AnyObject], int]
) -> bool:
    if info.pod.spec.get("preemptionPolicy") == "Never":
        return False
    mine = priority(info.pod)
    return mine > 0 and any(priority(other.pod) < mine for _, other in state.pods())


def condition(message: str, reason: str, now: str, pod: AnyObject) -> dict[str, Any] | None:
    """Return the `PodScheduled` condition to write, or None if the pod has it already."""
    for known in pod.status.get("conditions") or ():
        if known.get("type") == "PodScheduled":
            if (known.get("status"), known.get("reason")) == ("False", reason) and known.get(
                "message"
            ) == message:
                return None
            if known.get("status") == "False":
                now = known.get("lastTransitionTime") or now
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "observedGeneration": pod.metadata.generation,
    }
