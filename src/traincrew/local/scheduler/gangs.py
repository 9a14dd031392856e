"""Assignment of the pods of a group, at least its minimum at once or none. Pure.

A group holds nothing while it waits, so two groups never wait for each other. Pods are tried one
after another, as upstream does, and once more with the largest first: a group that fits in some
other way only may wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from traincrew.local.scheduler.groups import Group, does_not_fit, too_few
from traincrew.local.scheduler.outcomes import Assignment, Failure, Plan, Preemption
from traincrew.local.scheduler.state import requests_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traincrew.engine.objects import AnyObject
    from traincrew.local.scheduler.state import ClusterState, NodeState, PodInfo

    Placed = tuple[NodeState, PodInfo]

_MAKES_ROOM = "pod group is waiting for preemption to complete"


class Turn(Protocol):
    """What the decision about a group uses of a round of scheduling."""

    state: ClusterState
    plan: Plan
    known: dict[bytes, Failure]
    reserved: list[str]

    @property
    def priority(self) -> Callable[[AnyObject], int]:
        """Returns the priority of a pod."""

    def attempt(self, pod: AnyObject) -> Assignment | Failure:
        """Assign a pod in the state, or return why it fits on no node."""

    def keep(self, *results: Assignment | Failure) -> None:
        """Add results to the plan."""


def is_placed_one_by_one(group: Group, state: ClusterState) -> bool:
    """Return whether the pods of a group are placed like others: its minimum is on nodes."""
    return not group.problem and state.standing(group.key) >= group.minimum


def place_gang(turn: Turn, group: Group, pods: Sequence[AnyObject]) -> None:
    """Assign the pods of a group of which fewer than the minimum are on nodes.

    Args:
        turn: The round; its plan gets the decisions.
        group: What the PodGroup asks for.
        pods: Its pending pods, in the order in which they are tried.
    """
    standing = turn.state.standing(group.key)
    problem, incomplete = group.problem, True
    if not problem and standing + len(pods) < group.minimum:
        problem = too_few(group, standing + len(pods))
    if not problem:
        problem, incomplete = _shortage(group, turn.state), False
    if problem:
        turn.keep(*(Failure(pod, problem, incomplete=incomplete) for pod in pods))
        return
    least = group.minimum - standing
    results = _try(turn, pods, least)
    if _fitting(results) >= least:
        turn.keep(*results)
        return
    reason = next(result.message for result in results if isinstance(result, Failure))
    message = does_not_fit(group, standing + _fitting(results), reason)
    if _preempt(turn, group, pods, least):
        message = _MAKES_ROOM
    turn.keep(*(Failure(pod, message) for pod in pods))


def _shortage(group: Group, state: ClusterState) -> str:
    """Return which of its `minResources` the nodes together do not have free; usually nothing."""
    for resource, wanted in group.resources.items():
        has = sum(node.free(resource) for node in state.nodes())
        if has + state.used_by(group.key, resource) < wanted:
            return (
                f'pod group "{group.key.name}" is unschedulable: the nodes together have less '
                f"{resource} free than its minResources"
            )
    return ""


def _fitting(results: Sequence[Assignment | Failure]) -> int:
    return sum(isinstance(result, Assignment) for result in results)


def _try(turn: Turn, pods: Sequence[AnyObject], least: int) -> list[Assignment | Failure]:
    """Assign pods in the state; if fewer than `least` fit, undo it and return the failures."""
    first: list[Assignment | Failure] = []
    orders = [list(pods)]
    if len({tuple(_size(pod)) for pod in pods}) > 1:
        orders.append(sorted(pods, key=_size, reverse=True))
    before = dict(turn.known)
    for order in orders:
        results = [turn.attempt(pod) for pod in order]
        if _fitting(results) >= least:
            return results
        # What was found with the others on nodes does not hold without them.
        turn.known = dict(before)
        _undo(turn, results)
        first = first or results
    return first


def _undo(turn: Turn, results: Sequence[Assignment | Failure]) -> None:
    for result in results:
        if isinstance(result, Assignment):
            turn.state.drop_pod(result.pod.metadata.uid)


def _size(pod: AnyObject) -> list[tuple[str, int]]:
    """Return the requests of a pod, for an order: extended resources first, then memory, cpu."""
    try:
        requests = requests_of(pod.spec)
    except ValueError:
        return []
    return sorted(requests.items(), reverse=True)


def _preempt(turn: Turn, group: Group, pods: Sequence[AnyObject], least: int) -> bool:
    """Choose the pods to delete so that the minimum of a group fits.

    Pods with a lower priority than all of the group are candidates. A set is chosen from which no
    pod can be left out. The group's room is reserved until the end of the round, so that no less
    important pod takes it while the victims end.

    Returns:
        Whether the group will fit once pods have ended that were chosen now or before.
    """
    if any(pod.spec.get("preemptionPolicy") == "Never" for pod in pods):
        return False
    ending, others = _less_important(turn, group, pods)
    if not ending and not others:
        return False
    known, turn.known = turn.known, {}
    for _, info in ending:
        turn.state.drop_pod(info.pod.metadata.uid)
    results = _try(turn, pods, least) if ending else []
    victims: list[Placed] = []
    if _fitting(results) < least:
        victims, results = _victims(turn, pods, least, others)
    for node, info in (*ending, *victims):
        turn.state.set_pod(info.pod, node.name)
    turn.known = known
    for result in results:
        if isinstance(result, Assignment):
            turn.reserved.append(result.pod.metadata.uid)
    turn.plan.preemptions += [Preemption(info.pod, group.key) for _, info in victims]
    return _fitting(results) >= least


def _less_important(
    turn: Turn, group: Group, pods: Sequence[AnyObject]
) -> tuple[list[Placed], list[Placed]]:
    """Return the placed pods that are less important than a group: those that end, and others."""
    mine = min(turn.priority(pod) for pod in pods)
    # Pods of this round are not bound yet, so there is nothing to delete.
    new = {each.pod.metadata.uid for each in turn.plan.assignments} | set(turn.reserved)
    chosen = {each.victim.metadata.uid for each in turn.plan.preemptions}
    ending: list[Placed] = []
    others: list[Placed] = []
    for node, info in turn.state.pods():
        meta = info.pod.metadata
        if turn.priority(info.pod) < mine and info.group != group.key and meta.uid not in new:
            ends = meta.deletion_timestamp is not None or meta.uid in chosen
            (ending if ends else others).append((node, info))
    return ending, others


def _victims(
    turn: Turn,
    pods: Sequence[AnyObject],
    least: int,
    candidates: list[Placed],
) -> tuple[list[Placed], list[Assignment | Failure]]:
    """Return candidates without which the pods fit, and where they fit.

    The most important candidates are spared first, of equal ones the oldest; as many at once as
    possible, because each try costs a look at all nodes. The victims are not in the state when
    this returns; nothing has changed if there are none.
    """
    for _, info in candidates:
        turn.state.drop_pod(info.pod.metadata.uid)
    turn.known = {}
    results = _try(turn, pods, least)
    if _fitting(results) < least:
        for node, info in candidates:
            turn.state.set_pod(info.pod, node.name)
        return [], []
    victims: list[Placed] = []
    chunks = [
        sorted(
            candidates,
            key=lambda item: (
                -turn.priority(item[1].pod),
                item[1].pod.metadata.creation_timestamp,
                item[1].pod.metadata.uid,
            ),
        )
    ]
    while chunks:
        chunk = chunks.pop(0)
        _undo(turn, results)
        for node, info in chunk:
            turn.state.set_pod(info.pod, node.name)
        turn.known = {}
        again = _try(turn, pods, least)
        if _fitting(again) >= least:
            results = again
            continue
        for _, info in chunk:
            turn.state.drop_pod(info.pod.metadata.uid)
        for result in results:
            if isinstance(result, Assignment):
                turn.state.set_pod(result.pod, result.node)
        if len(chunk) == 1:
            victims += chunk
        else:
            half = len(chunk) // 2
            chunks[:0] = [chunk[:half], chunk[half:]]
    return victims, results
