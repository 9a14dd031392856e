"""Explains jobs that their queue holds, or admits in part (docs/guides/shared-clusters.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.reasons import (
    QUEUE_EVICTED,
    QUEUE_PENDING,
    QUEUE_REASONS,
    QUEUE_STOPPED,
)
from traincrew.cli.jobview.why.facts import Explanation, brief
from traincrew.plan.shared.queueing import kueue
from traincrew.plan.shared.queueing.standing import condition as stated_condition
from traincrew.plan.shared.queueing.standing import standing

if TYPE_CHECKING:
    from traincrew.cli.display.objects import Condition
    from traincrew.cli.jobview.why.facts import Facts

_CAUSES = {
    QUEUE_PENDING: "waiting-for-queue",
    QUEUE_EVICTED: "evicted-from-queue",
    QUEUE_STOPPED: "stopped-in-queue",
}
_WAIT = f"wait; kubectl describe {kueue.WORKLOADS} and kubectl get localqueues say more"


def fewer(facts: Facts) -> Explanation | None:
    """Return why a job runs with fewer pods than it asks for; None if its queue is no reason."""
    queue = facts.job.status.queue
    if queue is None or not queue.admitted:
        return None
    numbers = ", ".join(f"{count} {name}" for name, count in sorted(queue.admitted.items()))
    said = queue.message or f"it has admitted {numbers} pods"
    return Explanation(
        cause="fewer-admitted",
        text=f"{facts.title} runs with fewer pods than it asks for, as queue {queue.name} allows:"
        f" {brief(said)}",
        evidence=(f"status.queue.admitted: {numbers}",),
        fix="nothing, it grows when quota is free" if queue.message else _annotate(facts),
    )


def _annotate(facts: Facts) -> str:
    job = facts.job
    return (
        f"to let it grow: kubectl annotate {job.kind.lower()} {job.metadata.name}"
        f" -n {facts.namespace} {kueue.ELASTIC}=true (Kueue 0.18 or later)"
    )


def held(facts: Facts, condition: Condition) -> Explanation | None:
    """Return why the queue of a job holds it; None if something else does."""
    if condition.reason in QUEUE_REASONS:
        stated = f"Suspended {condition.reason}: {condition.message}"
        return _held(facts, condition.reason, condition.message, [stated])
    if facts.workload is None:
        return None
    workload, active = facts.workload, sum(not pod.status.ended for pod in facts.pods)
    found = standing(workload.stated, active)
    if found is None:
        return None
    evidence = [
        f"condition {each.get('type')}={each.get('status')} of Workload {workload.metadata.name}:"
        f" {each.get('reason')}: {brief(str(each.get('message', '')))}"
        for kind in (kueue.EVICTED, kueue.QUOTA_RESERVED, kueue.ADMITTED)
        if (each := stated_condition(workload.status, kind)) is not None
    ]
    return _held(facts, found.reason, found.text, evidence)


def _held(facts: Facts, reason: str, message: str, evidence: list[str]) -> Explanation:
    said, _, fix = message.partition("; ")
    text = f"{facts.title} has no pods, because its queue holds it: {said}"
    if facts.place is not None and reason == QUEUE_PENDING:
        mine, everybody = facts.place
        first = "it is the first in line" if not everybody else f"{everybody} are before it"
        text += f"; {first}"
        evidence.append(f"before it in the LocalQueue: {mine}; in the ClusterQueue: {everybody}")
    return Explanation(
        cause=_CAUSES.get(reason, "queue-unavailable"),
        text=text,
        evidence=tuple(evidence),
        fix=fix or _WAIT,
    )
