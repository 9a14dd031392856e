"""The queue of a job that MultiKueue runs on another cluster: here, and where it runs.

MultiKueue copies the Workload of a job, and then the job, to a cluster that has quota for it. It
finds jobs by their Workloads, so the operator makes one also for a job that it does not run. The
copy of the job names the copy of the Workload, which is used instead of another one.

Source: `pkg/controller/admissionchecks/multikueue` and `pkg/controller/jobframework` of Kueue 0.19.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.reasons import QUEUE_PENDING
from traincrew.plan.shared.model import FINGERPRINT, QueueQuery
from traincrew.plan.shared.queueing import kueue, messages, podsets, workloads
from traincrew.plan.shared.queueing.job import JobQueue
from traincrew.plan.shared.queueing.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from traincrew.api.meta import Owner
    from traincrew.plan.shared.lifecycle import QueueStatus
    from traincrew.plan.shared.model import Observed, QueueWrite
    from traincrew.plan.shared.queueing.podsets import PodSet
    from traincrew.plan.shared.views import WorkloadView


def job_queue(
    observed: Observed,
    owner: Owner,
    stored: QueueStatus | None,
    now: datetime,
    *,
    here: bool = True,
) -> JobQueue:
    """Return the queue of a job, which runs here or is sent elsewhere."""
    if not here:
        return SentJobQueue(observed, owner, stored, now)
    if workloads.prebuilt_name(observed.job.metadata):
        return CopiedJobQueue(observed, owner, stored, now)
    return JobQueue(observed, owner, stored, now)


class _WholeJobQueue(JobQueue):
    """The queue of a job that has one Workload: it does not grow through MultiKueue."""

    _is_elastic = False
    _may_have_slices = False


class SentJobQueue(_WholeJobQueue):
    """The queue of a job that runs on another cluster; it has no pods here."""

    def sent(
        self, pod_sets: Sequence[PodSet] | None, *, suspended: bool, finished: bool
    ) -> Verdict | None:
        """Return what is done with the Workload; None if the job asks for no queue.

        Args:
            pod_sets: What the job asks for; None if its spec is invalid at the moment.
            suspended: Whether the user suspends the job.
            finished: Whether the job has ended. Then nothing else is asked for, also if the
                Workload is gone: it would run again.
        """
        if not self._label:
            return None
        found = self._state.workload
        if found is not None and self._is_mine(found) and workloads.holds(found, kueue.FINISHED):
            return Verdict(writes=workloads.let_go(found))
        if finished:
            return Verdict()
        return self.decide(pod_sets, {}, suspended=suspended, runs=False)


class CopiedJobQueue(_WholeJobQueue):
    """The queue of the copy of a job, whose Workload MultiKueue has made."""

    def __init__(
        self, observed: Observed, owner: Owner, stored: QueueStatus | None, now: datetime
    ) -> None:
        super().__init__(observed, owner, stored, now)
        self._first_name = workloads.prebuilt_name(observed.job.metadata)

    def question(self, pod_sets: Sequence[PodSet]) -> QueueQuery | None:
        """Ask for the Workload only: its priority was found on the cluster of the user."""
        asked = super().question(pod_sets)
        return None if asked is None else QueueQuery(name=asked.name)

    def _not_mine(self, found: WorkloadView) -> Verdict:
        if found.metadata.controller is not None:
            return super()._not_mine(found)
        queue = str(found.spec.get("queueName") or "")
        held = self._held(QUEUE_PENDING, messages.waiting(queue, None), queue)
        held.writes.append(workloads.adopt(self._owner, found))
        return held

    def _unqueued(self, pod_sets: Sequence[PodSet] | None) -> Verdict:  # noqa: ARG002
        return self._held(QUEUE_PENDING, messages.not_made(self._first_name))

    def _updates(self, found: WorkloadView, pod_sets: Sequence[PodSet]) -> list[QueueWrite]:
        wanted = podsets.fingerprint(pod_sets)
        is_same = found.metadata.annotations.get(FINGERPRINT) == wanted
        if is_same and workloads.same_counts(found, pod_sets):
            return []
        return self._replace(found)

    def _replace(self, found: WorkloadView) -> list[QueueWrite]:
        return [workloads.out_of_sync(found, self._now)]
