"""Typed views of the nodes, quotas and places in queues by which a job is explained."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import field

from traincrew.cli.display.objects import Conditions
from traincrew.engine.objects import ObjectMeta, View
from traincrew.plan.shared.queueing.standing import Stated

__all__ = ["Node", "QueuePlace", "Quota"]


class Taint(View, frozen=True, gc=False, kw_only=True):
    """A taint of a node."""

    key: str = ""
    effect: str = ""


class NodeSpec(View, frozen=True, gc=False, kw_only=True):
    """The part of a node's spec that keeps pods away."""

    unschedulable: bool = False
    taints: list[Taint] = field(default_factory=list)


class NodeStatus(Conditions, frozen=True, gc=False, kw_only=True):
    """What a node offers, and whether it is ready."""

    allocatable: dict[str, Any] = field(default_factory=dict)


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


class Queued(View, frozen=True, gc=False, kw_only=True):
    """A Workload of Kueue."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def stated(self) -> Stated:
        """What it says of its job."""
        queue = str(self.spec.get("queueName", ""))
        return Stated(self.metadata.name, queue, self.spec, self.status)


class QueuePlace(NamedTuple):
    """How many Workloads are before that of a job.

    Attributes:
        local: In its LocalQueue.
        cluster: In its ClusterQueue, which other namespaces use as well.
    """

    local: int
    cluster: int
