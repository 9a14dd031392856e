"""In-memory state of the reconciler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from traincrew.api.meta import CustomObject
    from traincrew.plan.shared.model import (
        ChildKey,
        GangState,
        LogKey,
        Output,
        QueueState,
        Refusal,
    )
    from traincrew.plan.shared.schedulers import Served
    from traincrew.plan.shared.views import ChildView


class Foresight(Struct, frozen=True, kw_only=True):
    """What a dry run has shown about a child that is created later.

    Attributes:
        digest: Hash of the documents that were tried.
        refusal: Why the API would refuse it; None if it would not.
        due: When to try again, on the monotonic clock; only if it would be refused.
    """

    digest: str
    refusal: Refusal | None
    due: float


class JobState(Struct, kw_only=True):
    """State of one job that the reconciler keeps between reconciles, and drops with the job.

    Attributes:
        earliest_reconcile: Earliest time of the next reconcile, on the monotonic clock.
        generations: Generation of each child, by UID, when we wrote it or first observed it.
        children: Children ever observed, by UID of the job, because names are reused.
        missing: When to check each missing pod next, on the monotonic clock.
        rejections: Why the API refuses those pods.
        foreseen: What is known about children of `Plan.coming`.
        foresight_due: When to ask about those of which nothing is known, on the monotonic clock;
            None if there are none.
        seen: Children and pods in the caches at the last reconcile.
        deleted: UIDs of children and pods that we have deleted, and that are still being observed.
        logs: The ends of logs that show why pods failed.
        outputs: What is known about the last output of containers.
        gang: The PodGroup as it was read last.
        gang_of: The scheduler whose PodGroup that is.
        gang_due: When to read it again, on the monotonic clock.
        queue: The Workload and what belongs to it as they were read last.
        queue_of: Name of that Workload.
        queue_due: When to read them again, on the monotonic clock.
    """

    earliest_reconcile: float = 0.0
    generations: dict[str, int] = field(default_factory=dict)
    children: dict[str, set[ChildKey]] = field(default_factory=dict)
    missing: dict[str, float] = field(default_factory=dict)
    rejections: dict[str, Refusal] = field(default_factory=dict)
    foreseen: dict[ChildKey, Foresight] = field(default_factory=dict)
    foresight_due: float | None = None
    seen: dict[ChildKey, ChildView] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    logs: dict[LogKey, str] = field(default_factory=dict)
    outputs: dict[LogKey, Output] = field(default_factory=dict)
    gang: GangState | None = None
    gang_of: Served | None = None
    gang_due: float = 0.0
    queue: QueueState | None = None
    queue_of: str = ""
    queue_due: float = 0.0

    def children_of(self, job: CustomObject) -> set[ChildKey]:
        """Return the children ever observed of this very job."""
        return self.children.setdefault(job.metadata.uid, set())
