"""Explains jobs that their queue holds (docs/guides/shared-clusters.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.reasons import (
    QUEUE_EVICTED,
    QUEUE_PENDING,
    QUEUE_REASONS,
    QUEUE_STOPPED,
)
from traincrew.cli.jobview.why.facts import Explanation
from traincrew.plan.shared.queueing import kueue

if TYPE_CHECKING:
    from traincrew.cli.display.objects import Condition
    from traincrew.cli.jobview.why.facts import Facts

_CAUSES = {
    QUEUE_PENDING: "waiting-for-queue",
    QUEUE_EVICTED: "evicted-from-queue",
    QUEUE_STOPPED: "stopped-in-queue",
}
_WAIT = f"wait; kubectl describe {kueue.WORKLOADS} and kubectl get localqueues say more"


def held(facts: Facts, condition: Condition) -> Explanation | None:
    """Return why the queue of a job holds it; None if something else does."""
    if condition.reason not in QUEUE_REASONS:
        return None
    said, _, fix = condition.message.partition("; ")
    return Explanation(
        cause=_CAUSES.get(condition.reason, "queue-unavailable"),
        text=f"{facts.title} has no pods, because its queue holds it: {said}",
        evidence=(f"Suspended {condition.reason}: {condition.message}",),
        fix=fix or _WAIT,
    )
