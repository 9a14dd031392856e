"""The plan of a Job, and the markers of Jobs and their pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.local.controllers.common import has_condition
from traincrew.local.controllers.job.backoff import Backoff

if TYPE_CHECKING:
    from traincrew.engine.objects import AnyObject
    from traincrew.local.controllers.writes import Deletion, Event

TRACKING = "batch.kubernetes.io/job-tracking"
"""Finalizer that keeps a deleted pod until it was counted."""
MANAGED_BY = "kubernetes.io/job-controller"


class Plan(Struct, kw_only=True):
    """The writes, in this order: deletions and creations, status, finalizers, final status.

    Attributes:
        delete: Pods to delete.
        create: Pods to create.
        status: Status before finalizers are removed; None to leave it.
        release: Pods whose tracking finalizer is to be removed.
        final_status: Status once they are removed; None to leave it.
        events: Events to record once the status is written.
        backoff: Argument of the next call.
        requeue_at: Seconds since the epoch, or None.
    """

    delete: list[Deletion] = field(default_factory=list)
    create: list[dict[str, Any]] = field(default_factory=list)
    status: dict[str, Any] | None = None
    release: list[AnyObject] = field(default_factory=list)
    final_status: dict[str, Any] | None = None
    events: list[Event] = field(default_factory=list)
    backoff: Backoff = Backoff()
    requeue_at: float | None = None


def is_job_finished(job: AnyObject) -> bool:
    """Return whether it is Complete or Failed; nothing changes after that."""
    conditions = job.status.get("conditions")
    return has_condition(conditions, "Complete") or has_condition(conditions, "Failed")


def is_tracked(pod: AnyObject) -> bool:
    """Return whether the pod still waits to be counted."""
    return TRACKING in pod.metadata.finalizers
