"""One step of the rolling update of a DaemonSet. Pure.

The rules are upstream's (`pkg/controller/daemon/update.go`): at most `maxUnavailable` nodes are
without an available pod, or, with `maxSurge`, at most that many nodes have a second pod until it is
available. An old pod that is not available is replaced at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from traincrew.local.controllers import pods as podutil
from traincrew.local.controllers.common import scaled_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from traincrew.engine.objects import AnyObject


class Limits(NamedTuple):
    """`maxUnavailable` and `maxSurge` as numbers of nodes; one of them is zero."""

    unavailable: int
    surge: int


class Step(Struct):
    """Pods to delete, and names of nodes that get a new pod."""

    delete: list[AnyObject] = field(default_factory=list)
    create: list[str] = field(default_factory=list)


class OnNode(NamedTuple):
    """The pods of a node that are not being deleted; None if there are several of one state."""

    new: AnyObject | None
    old: AnyObject | None


def limits_of(owner: AnyObject, desired: int) -> Limits:
    """Return the limits of a rolling update.

    Args:
        owner: The DaemonSet.
        desired: Number of nodes that should have a pod.

    Raises:
        ValueError: One is neither a number nor a percentage.
    """
    rolling = (owner.spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    unavailable = scaled_value(rolling.get("maxUnavailable"), desired, round_up=True)
    surge = scaled_value(rolling.get("maxSurge"), desired, round_up=True)
    return Limits(unavailable or (0 if surge else 1), surge)


def on_node(pods: Iterable[AnyObject], is_new: Callable[[AnyObject], bool]) -> OnNode | None:
    """Return the new and the old pod of a node; None if there are more than that."""
    found: dict[bool, AnyObject] = {}
    for pod in pods:
        if podutil.is_terminating(pod):
            continue
        state = is_new(pod)
        if state in found:
            return None
        found[state] = pod
    return OnNode(found.get(True), found.get(False))


def replace(
    nodes: Mapping[str, OnNode | None],
    limit: int,
    is_available: Callable[[AnyObject], bool],
) -> Step:
    """Return the old pods to delete; their successors are created once they are gone.

    Args:
        nodes: The pods on each node that has or should have one.
        limit: How many nodes may be without an available pod.
        is_available: Whether a pod is.
    """
    step, candidates, unavailable = Step(), [], 0
    for node in nodes.values():
        if node is None or (node.new is None) == (node.old is None):
            unavailable += 1
        elif node.new is not None:
            unavailable += not is_available(node.new)
        elif node.old is not None and not is_available(node.old):
            step.delete.append(node.old)
            unavailable += 1
        elif node.old is not None:
            candidates.append(node.old)
    step.delete += candidates[: max(0, limit - unavailable)]
    return step


def surge(
    nodes: Mapping[str, OnNode | None],
    limit: int,
    is_available: Callable[[AnyObject], bool],
    runs: Callable[[str], bool],
    desired: int,
) -> Step:
    """Return the nodes that get a second pod, and the old pods that have done their duty.

    Args:
        nodes: The pods on each node that has or should have one.
        limit: How many nodes may have a second pod.
        is_available: Whether a pod is.
        runs: Whether a node, by its name, should have a pod.
        desired: Number of nodes that should have one.
    """
    step = Step()
    candidates: list[str] = []
    leaving: list[AnyObject] = []
    surging = available = 0
    for name, node in nodes.items():
        if node is None:
            surging += 1
            continue
        oldest = node.old or node.new
        available += oldest is not None and is_available(oldest)
        if node.old is None:
            continue
        if node.new is not None:
            if is_available(node.new):
                step.delete.append(node.old)
            else:
                surging += 1
        elif not runs(name):
            (leaving if is_available(node.old) else step.delete).append(node.old)
        elif is_available(node.old):
            candidates.append(name)
        else:
            step.create.append(name)
    # A pod of a node that should have none goes when another one is available in its place.
    step.delete += leaving[: max(0, available - desired)]
    step.create += candidates[: max(0, limit - surging)]
    return step
