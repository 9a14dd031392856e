"""What a round of scheduling decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from traincrew.engine.objects import AnyObject
    from traincrew.local.scheduler.groups import GroupKey


class Assignment(Struct):
    """A pod and the node it is assigned to."""

    pod: AnyObject
    node: str


class Failure(Struct):
    """A pod that fits on no node now.

    Attributes:
        pod: The pod.
        message: The reason, in upstream's words.
        would_preempt: Whether it would fit after the preemption of pods with lower priority.
        incomplete: Whether its group has no PodGroup yet, or fewer pods than its minimum.
    """

    pod: AnyObject
    message: str
    would_preempt: bool = False
    incomplete: bool = False


class Preemption(Struct):
    """A pod that has to end so that a group fits.

    Attributes:
        victim: The pod.
        group: The group that takes its place.
    """

    victim: AnyObject
    group: GroupKey


class Plan(Struct):
    """What to do about the pending pods.

    Attributes:
        assignments: Pods to bind.
        failures: Pods that could not be assigned.
        preemptions: Pods to delete.
        groups: Why groups of pending pods are not scheduled: less than their minimum is on nodes.
    """

    assignments: list[Assignment] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    preemptions: list[Preemption] = field(default_factory=list)
    groups: dict[GroupKey, str] = field(default_factory=dict)
