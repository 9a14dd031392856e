"""The status of a TrainJob: what it stores, and how it is written in the words of Trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from traincrew.plan.shared import lifecycle
from traincrew.plan.shared.lifecycle import ReplicaStatus, Status
from traincrew.plan.trainjob.children import LABEL_ROLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.plan.shared.progress import ReportedProgress
    from traincrew.plan.shared.views import ObservedPod
    from traincrew.plan.trainjob.views import JobSetView

COMPLETE = "Complete"
SUSPENDED_TEXT = ("Suspended", "TrainJob is suspended")
RESUMED_TEXT = ("Resumed", "TrainJob is resumed")
DEADLINE_TEXT = "TrainJob exceeded its active deadline"
"""Reasons and messages of conditions (``pkg/constants``)."""
_COUNTS = ("ready", "succeeded", "failed", "active", "suspended")


class JobStatus(Struct, rename="camel", kw_only=True):
    """The Jobs of one replicated job, by state."""

    name: str
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    suspended: int = 0


class TrainJobStatus(Status, rename="camel", kw_only=True, omit_defaults=True):
    """``status`` of a TrainJob."""

    jobs_status: list[JobStatus] = field(default_factory=list)


def status_with_counts(
    stored: TrainJobStatus, jobset: JobSetView | None, pods: Sequence[ObservedPod], total: int
) -> TrainJobStatus:
    """Return the stored status with the counts of this reconcile.

    Args:
        stored: The status.
        jobset: The JobSet; None if there is none.
        pods: The pods.
        total: How many pods there should be.
    """
    counts = stored.jobs_status
    if jobset is not None:
        counts = [
            JobStatus(name=each["name"], **{name: int(each.get(name) or 0) for name in _COUNTS})
            for each in jobset.status.get("replicatedJobsStatus") or []
        ]
    roles: dict[str, list[ObservedPod]] = {each.name: [] for each in counts}
    for pod in pods:
        roles.setdefault(pod.metadata.labels.get(LABEL_ROLE, ""), []).append(pod)
    ready = sum(pod.ready for pod in pods)
    return msgspec.structs.replace(
        stored,
        jobs_status=counts,
        replica_statuses={
            name: ReplicaStatus(
                active=sum(pod.active for pod in found), ready=sum(pod.ready for pod in found)
            )
            for name, found in sorted(roles.items())
        },
        workers_ready=f"{min(ready, total)}/{total}",
    )


def document(status: TrainJobStatus) -> dict[str, Any]:
    """Return the status as plain data, with Trainer's conditions beside those of all kinds."""
    plain = lifecycle.document(status)
    if conditions := plain.get("conditions"):
        plain["conditions"] = _conditions(conditions)
    if status.progress is not None:
        plain["trainerStatus"] = _reported(status.progress)
    return plain


def _conditions(conditions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the conditions; what holds comes last, because clients show the last one."""
    found = []
    for each in conditions:
        holds = each["status"] == "True"
        said = {**each, "message": each.get("message", "")}
        if each["type"] == lifecycle.SUSPENDED:
            reason, message = SUSPENDED_TEXT if holds else RESUMED_TEXT
            said |= {"reason": reason, "message": message}
        found.append(said)
        if each["type"] == lifecycle.SUCCEEDED:
            found.append({**said, "type": COMPLETE})
    return sorted(found, key=lambda each: bool(each["status"] == "True"))


def _reported(progress: ReportedProgress) -> dict[str, Any]:
    found = {
        "progressPercentage": progress.percentage,
        "estimatedRemainingSeconds": progress.estimated_remaining_seconds,
        "metrics": msgspec.to_builtins(progress.metrics) or None,
        "lastUpdatedTime": progress.last_update_time or None,
    }
    return {name: value for name, value in found.items() if value is not None}
