"""The queue of one job: what holds it, what an admission means, what is reported to Kueue."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import structs

from traincrew.api.reasons import (
    QUEUE_EVICTED,
    QUEUE_PENDING,
    QUEUE_STOPPED,
    QUEUE_UNAVAILABLE,
)
from traincrew.plan.shared.lifecycle import QueueStatus
from traincrew.plan.shared.model import FINGERPRINT, QueueQuery, QueueState
from traincrew.plan.shared.queueing import admission, kueue, messages, podsets, slices, workloads
from traincrew.plan.shared.queueing.admission import AdmissionConflictError
from traincrew.plan.shared.queueing.standing import Stated, without_quota
from traincrew.plan.shared.queueing.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from traincrew.api.meta import Owner
    from traincrew.plan.shared.model import Observed, QueueWrite
    from traincrew.plan.shared.queueing.podsets import PodSet
    from traincrew.plan.shared.views import WorkloadView

READ_SECONDS = 15.0
"""Seconds after which the Workload of a job that is held is read again, if no watch reports it."""


FINISHED_SECONDS = 300.0
"""The same for a job that has ended, while the cluster does not serve Workloads."""


class JobQueue:
    """The queue of one job.

    Args:
        observed: The job, its pods, and its Workload.
        owner: The job.
        stored: What its status says of the queue.
        now: The time.
    """

    def __init__(
        self, observed: Observed, owner: Owner, stored: QueueStatus | None, now: datetime
    ) -> None:
        self._observed = observed
        self._owner = owner
        self._stored = stored or QueueStatus()
        self._now = now
        self._label = owner.labels.get(kueue.QUEUE, "")
        self._first_name = workloads.name_of(owner)
        self._finished: Mapping[str, int] = {}
        self._grows = False

    @property
    def is_asked_for(self) -> bool:
        """Whether the job asks for a queue, or has asked for one."""
        return bool(self._label or self._stored.workload)

    def question(self, pod_sets: Sequence[PodSet]) -> QueueQuery | None:
        """Return what must be known first; None for a job that has nothing to do with queues."""
        if self._observed.queue is not None or not self.is_asked_for:
            return None
        named = (str(each.template["spec"].get("priorityClassName") or "") for each in pod_sets)
        return QueueQuery(
            name=self._first_name,
            job_uid=self._owner.uid if self._may_have_slices else "",
            priority_class=self._owner.labels.get(kueue.PRIORITY_CLASS, ""),
            pod_priority_class=next(filter(None, named), ""),
        )

    @property
    def _is_elastic(self) -> bool:
        """Whether the job asks for more pods while it runs with fewer."""
        return self._observed.job.metadata.annotations.get(kueue.ELASTIC) == "true"

    @property
    def _may_have_slices(self) -> bool:
        """Whether there may be other Workloads of the job, also after an edit of its annotation."""
        is_first = (self._stored.workload or self._first_name) == self._first_name
        return self._is_elastic or bool(self._stored.admitted) or not is_first

    @cached_property
    def _state(self) -> QueueState:
        """What is known, with the Workload that counts now."""
        state = self._observed.queue or QueueState()
        if not state.slices:
            return state
        return structs.replace(state, workload=self._chain.current)

    @cached_property
    def _chain(self) -> slices.Chain:
        state = self._observed.queue or QueueState()
        if not self._may_have_slices:
            return slices.Chain(current=state.workload)
        first = () if state.workload is None else (state.workload,)
        return slices.chain(each for each in (*first, *state.slices) if self._is_mine(each))

    @property
    def _name(self) -> str:
        found = self._state.workload
        return found.metadata.name if found is not None else self._first_name

    def _is_mine(self, found: WorkloadView) -> bool:
        """Return whether a Workload belongs to this very job."""
        controller = found.metadata.controller
        return controller is not None and controller.uid == self._owner.uid

    @cached_property
    def _active(self) -> int:
        """Number of pods that hold resources, those of deleted children included."""
        return sum(pod.active for pod in (*self._observed.pods, *self._observed.departing))

    def _after_pods(self, verdict: Verdict, writes: Sequence[QueueWrite]) -> Verdict:
        """Add writes that follow when no pod is left, as the API server says."""
        if not writes or self._active:
            return verdict
        if self._observed.confirmed:
            verdict.writes += writes
        else:
            verdict.asks = True
        return verdict

    def _held(self, reason: str, text: str, queue: str = "") -> Verdict:
        status = QueueStatus(name=queue or self._label, workload=self._name)
        return Verdict(reason=reason, text=text, status=status, seconds=READ_SECONDS)

    # -- a job that has not ended -------------------------------------------------------------

    def decide(
        self,
        pod_sets: Sequence[PodSet] | None,
        finished: Mapping[str, int],
        *,
        suspended: bool,
        runs: bool,
    ) -> Verdict | None:
        """Return what the queue demands; None if the job has nothing to do with one.

        Args:
            pod_sets: What the job asks for; None if its spec is invalid at the moment.
            finished: How many pods of each set have ended for good; their quota was given back.
            suspended: Whether the user suspends the job.
            runs: Whether the job was admitted, and nothing has held it since.
        """
        if not self.is_asked_for:
            return None
        verdict = self._decide(pod_sets, finished, suspended=suspended, runs=runs)
        if verdict is not None:
            chain = self._chain
            unneeded = () if self._grows or chain.pending is None else (chain.pending,)
            verdict.writes += slices.remove((*chain.rest, *unneeded))
        return verdict

    def _decide(
        self,
        pod_sets: Sequence[PodSet] | None,
        finished: Mapping[str, int],
        *,
        suspended: bool,
        runs: bool,
    ) -> Verdict | None:
        state, found = self._state, self._state.workload
        if state.problem:
            if runs and not suspended:  # what is not known is not gone
                return Verdict(status=self._stored, unknown=state.problem, seconds=READ_SECONDS)
            return self._held(QUEUE_UNAVAILABLE, state.problem)
        if pod_sets is not None and not pod_sets:
            return self._held(QUEUE_UNAVAILABLE, messages.unsupported(self._owner.kind))
        if found is None:
            return self._without_workload(pod_sets, suspended=suspended)
        if not self._is_mine(found):
            return self._not_mine(found)
        queue = str(found.spec.get("queueName") or "")
        if found.metadata.deletion_timestamp is not None:
            text = messages.deleted(self._name, self._active)
            return self._after_pods(self._held(QUEUE_STOPPED, text, queue), workloads.let_go(found))
        if workloads.holds(found, kueue.FINISHED):
            stated = workloads.condition(found, kueue.FINISHED) or {}
            return self._held(QUEUE_STOPPED, messages.finished(self._name, stated), queue)
        if suspended:
            return self._suspended(found, queue)
        if workloads.holds(found, kueue.QUOTA_RESERVED):
            self._finished = finished
            return self._with_quota(found, queue, pod_sets, runs=runs)
        return self._waiting(found, queue, pod_sets)

    def _without_workload(
        self, pod_sets: Sequence[PodSet] | None, *, suspended: bool
    ) -> Verdict | None:
        if suspended or not self._label:
            return Verdict() if self._stored.workload else None
        if self._active:
            text = messages.not_queued(self._label, self._active)
            return self._held(QUEUE_PENDING, text)
        return self._unqueued(pod_sets)

    def _not_mine(self, found: WorkloadView) -> Verdict:  # noqa: ARG002
        """Decide about a Workload that belongs to something else."""
        return self._held(QUEUE_UNAVAILABLE, messages.foreign(self._name))

    def _unqueued(self, pod_sets: Sequence[PodSet] | None) -> Verdict:
        """Put a job into its queue that has no pods and no Workload."""
        held = self._held(QUEUE_PENDING, messages.waiting(self._label, None))
        if pod_sets is None:
            return held
        # A job that was never seen before has no pods.
        is_new = not self._observed.job.status.get("conditions")
        write = workloads.create(self._owner, self._label, pod_sets, self._state.priority)
        if is_new:
            held.writes.append(write)
            return held
        return self._after_pods(held, [write])

    def _suspended(self, found: WorkloadView, queue: str) -> Verdict:
        """Take a job out of its queue that its user suspends; it keeps its Workload."""
        verdict = self._held("", "", queue)
        if workloads.is_on_hold(found):
            verdict.seconds = None
            return verdict
        text = "The job is suspended by its user"
        release = workloads.release(found, self._now, kueue.ON_HOLD, text)
        return self._after_pods(verdict, [release])

    def _waiting(
        self, found: WorkloadView, queue: str, pod_sets: Sequence[PodSet] | None
    ) -> Verdict:
        """Decide about a Workload that has no quota."""
        if not self._label:  # the user has taken the job out of the queue
            return Verdict(writes=workloads.delete(found), status=None, reason=QUEUE_PENDING,
                           text=messages.left(queue), seconds=1.0)  # fmt: skip
        stated = Stated(self._name, self._label, found.spec, found.status)
        reason, text = without_quota(stated, self._active)
        held = self._held(reason, text, queue if reason == QUEUE_STOPPED else "")
        if pod_sets is not None:
            held.writes += self._updates(found, pod_sets)
        if not held.writes and workloads.is_on_hold(found):
            text = "The job is not suspended any more; it waits for quota"
            held.writes.append(workloads.release(found, self._now, kueue.PENDING, text))
        return held

    def _with_quota(
        self,
        found: WorkloadView,
        queue: str,
        pod_sets: Sequence[PodSet] | None,
        *,
        runs: bool,
    ) -> Verdict:
        """Decide about a Workload that has quota, whose queue is not changed any more."""
        evicted = workloads.condition(found, kueue.EVICTED) or {}
        if evicted.get("status") == "True":
            reason = QUEUE_STOPPED if found.spec.get("active") is False else QUEUE_EVICTED
            held = self._held(reason, messages.evicted(queue, evicted, self._active), queue)
            message = str(evicted.get("message", ""))
            release = workloads.release(found, self._now, kueue.PENDING, message)
            return self._after_pods(held, [release])
        if pod_sets is not None and self._is_other(found, pod_sets):
            held = self._held(QUEUE_PENDING, messages.changed(queue, self._active), queue)
            return self._after_pods(held, self._replace(found))
        if not workloads.holds(found, kueue.ADMITTED):
            if (before := self._chain.before) is not None and runs:
                return self._admitted(before, queue, pod_sets or ())
            return self._held(QUEUE_PENDING, messages.checking(queue, found.status), queue)
        return self._admitted(found, queue, pod_sets or ())

    def _updates(self, found: WorkloadView, pod_sets: Sequence[PodSet]) -> list[QueueWrite]:
        """Return the writes after which a Workload asks for what its job asks for."""
        priority = self._state.priority
        return workloads.updates(self._owner, found, self._label, pod_sets, priority)

    def _replace(self, found: WorkloadView) -> list[QueueWrite]:
        """Return the writes after which a Workload with quota makes room for another one."""
        return workloads.delete(found)

    def _is_other(self, found: WorkloadView, pod_sets: Sequence[PodSet]) -> bool:
        """Return whether a job asks for something else than its Workload has quota for.

        A job that asks for fewer pods gives quota back. One that can run with fewer than it asks
        for does so with those that were admitted.
        """
        wanted = podsets.fingerprint(pod_sets)
        if found.metadata.annotations.get(FINGERPRINT) != wanted:
            return True
        counts = admission.counts(found, self._finished)
        return any(
            each.count > counts.get(each.name, 0)
            and (each.least is None or counts.get(each.name, 0) < min(each.least, each.count))
            for each in pod_sets
        )

    def _admitted(self, found: WorkloadView, queue: str, pod_sets: Sequence[PodSet]) -> Verdict:
        assigned = (found.status.get("admission") or {}).get("clusterQueue", "")
        counts, asked = admission.counts(found, self._finished), workloads.asked(found)
        if self._is_elastic:
            asked |= {each.name: each.count for each in pod_sets}
        fewer = {name: count for name, count in counts.items() if count < asked.get(name, 0)}
        verdict = Verdict(counts=counts)
        try:
            verdict.added = admission.additions(found, self._state.flavors)
            for each in pod_sets:
                if each.name in verdict.added:
                    verdict.added[each.name].add_to(each.template)
        except AdmissionConflictError as error:
            verdict.failure = messages.conflict(queue, str(error))
        text = ""
        if self._is_elastic and found is self._state.workload and not any(self._finished.values()):
            pending = self._chain.pending
            verdict.writes, text = slices.grow(self._owner, found, pending, pod_sets, counts)
            self._grows = bool(text)
        verdict.status = QueueStatus(
            name=queue,
            workload=self._name,
            cluster_queue=assigned,
            admitted=fewer,
            message=text,
        )
        return verdict

    def report(self, wanted: Mapping[str, int]) -> list[QueueWrite]:
        """Return what is reported of an admitted job: reclaimable pods, else readiness.

        Args:
            wanted: How many pods of each set the job asks for now.
        """
        found = self._state.workload
        if found is None or not workloads.holds(found, kueue.ADMITTED):
            return []
        asked, allowed = workloads.asked(found), admission.admitted(found)
        unneeded: dict[str, int] = {}
        for name, count in allowed.items():
            needed = max(0, min(wanted.get(name, 0), count) - self._finished.get(name, 0))
            unneeded[name] = asked.get(name, 0) - needed if needed < count else 0
        if (write := workloads.reclaim(found, unneeded)) is not None:
            return [write]
        up = sum(pod.ready or pod.status.phase == "Succeeded" for pod in self._observed.pods)
        expected = sum(min(count, wanted.get(name, 0)) for name, count in allowed.items())
        write = workloads.pods_ready(found, self._now, ready=up >= expected)
        return [write] if write is not None else []

    # -- a job that has ended -----------------------------------------------------------------

    def finish(self, *, succeeded: bool, message: str) -> Verdict:
        """Return what is done with the Workload of a job that has ended.

        Its quota is in use until no pod is left that holds resources.
        """
        name, state, found = self._stored.name or self._label, self._state, self._state.workload
        kept = QueueStatus(name=name, workload=self._name)
        if state.problem:
            seconds = READ_SECONDS if state.served else FINISHED_SECONDS
            return Verdict(status=kept, seconds=seconds)
        if found is None or not self._is_mine(found):
            return Verdict(status=QueueStatus(name=name))
        chain = self._chain
        others = [each for each in (chain.before, chain.pending) if each is not None]
        writes = workloads.finish(found, self._now, succeeded=succeeded, message=message)
        writes += slices.remove((*chain.rest, *others))
        verdict = self._after_pods(Verdict(status=kept), writes)
        if verdict.writes or not writes:
            verdict.status = QueueStatus(name=name)
        return verdict

    def leave(self) -> Verdict:
        """Return what is done with the Workload of a job that is being deleted."""
        state = self._observed.queue or QueueState()
        first = () if state.workload is None else (state.workload,)
        found = [
            each for each in (*first, *state.slices) if each.metadata.deletion_timestamp is not None
        ]
        verdict = Verdict(status=self._stored, seconds=1.0 if found else None)
        return self._after_pods(
            verdict, [write for each in found for write in workloads.let_go(each)]
        )
