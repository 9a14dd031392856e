"""Typed views of the API objects that the view model and explanations are made of.

Those of `traincrew.cli.display.objects`, and what a list, a model or an explanation needs besides.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from traincrew.cli.display import objects
from traincrew.cli.display.objects import ContainerStatus, Event, Pod, Progress
from traincrew.engine.objects import ObjectMeta, View

__all__ = [
    "Condition",
    "ContainerStatus",
    "Event",
    "Job",
    "Node",
    "Pod",
    "Progress",
    "Quota",
    "Status",
]


class Condition(objects.Condition, frozen=True, gc=False, kw_only=True):
    """A condition, with the time of its last transition."""

    last_transition_time: str | None = None


class Status(objects.JobStatus, frozen=True, gc=False, kw_only=True):
    """``status``, as far as all kinds share it."""

    conditions: list[Condition] = field(default_factory=list)  # type: ignore[assignment]
    observed_generation: int = 0
    restarts: int = 0
    replica_statuses: Any = None
    """A mapping or a list of counts, one for each role."""

    def true(self, kind: str) -> Condition | None:
        """Return a condition if it is true."""
        found = (one for one in self.conditions if one.type == kind and one.status == "True")
        return next(found, None)


class Job(objects.TrainingJob, frozen=True, gc=False, kw_only=True):
    """A training job of any kind."""

    status: Status = field(default_factory=Status)


class Taint(View, frozen=True, gc=False, kw_only=True):
    """A taint of a node."""

    key: str = ""
    effect: str = ""


class NodeSpec(View, frozen=True, gc=False, kw_only=True):
    """The part of a node's spec that keeps pods away."""

    unschedulable: bool = False
    taints: list[Taint] = field(default_factory=list)


class NodeStatus(View, frozen=True, gc=False, kw_only=True):
    """What a node offers, and whether it is ready."""

    allocatable: dict[str, Any] = field(default_factory=dict)
    conditions: list[Condition] = field(default_factory=list)


class Node(View, frozen=True, gc=False, kw_only=True):
    """A node."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class QuotaStatus(View, frozen=True, gc=False, kw_only=True):
    """What a quota allows, and what is used of it."""

    hard: dict[str, Any] = field(default_factory=dict)
    used: dict[str, Any] = field(default_factory=dict)


class Quota(View, frozen=True, gc=False, kw_only=True):
    """A ResourceQuota."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    status: QuotaStatus = field(default_factory=QuotaStatus)
