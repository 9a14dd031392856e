"""The Job of one pod that decides about a training job: it counts, retries and ends.

It runs the program that starts the ranks in the workers: the master of a ChainerJob, the launcher
of an MPIJob.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Protocol

from msgspec import Struct

from traincrew.api.meta import parse_time
from traincrew.api.reasons import Cause
from traincrew.plan.shared import lifecycle, podrecords, pods, runpolicy, stall
from traincrew.plan.shared.lifecycle import Outcome, Status
from traincrew.plan.shared.model import ChildKey, Observed
from traincrew.plan.shared.views import BatchJobView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from traincrew.api.kind import Kind
    from traincrew.api.meta import Condition
    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.views import ObservedPod

DEFAULT_BACKOFF_LIMIT = 6  # of batch/v1
WATCH_LAG_SECONDS = 5.0
"""How far the watch of pods may lag behind the watch of their Job."""

State = tuple[str, str, str]
"""The true condition (or ""), its reason and its message."""


class Limits(Protocol):
    """The limits that the Job enforces."""

    @property
    def backoff_limit(self) -> int | None: ...  # noqa: D102 - as in a Job

    @property
    def active_deadline_seconds(self) -> int | None: ...  # noqa: D102 - as in a Job


class MasterWords(Struct, frozen=True, kw_only=True):
    """What a kind calls the pod of the Job.

    Attributes:
        place: Key of its record, and name of its role in the status.
        noun: In messages.
    """

    place: str
    noun: str

    @property
    def restarts(self) -> str:
        """What is said of one that makes no progress."""
        return f"the {self.noun} is restarted"

    def reason(self, what: str) -> str:
        """Return a reason, such as ``MasterPending``."""
        return f"{self.noun.capitalize()}{what}"


class MasterJob:
    """The Job of one training job and its pods, as a reconcile sees them.

    Args:
        observed: The children.
        stored: The status as stored.
        now: The time.
        name: The name of the Job.
        success: What is said of a job whose Job has completed.
    """

    definition: ClassVar[Kind]
    words: ClassVar[MasterWords]

    def __init__(
        self, observed: Observed, stored: Status, now: datetime, *, name: str, success: str
    ) -> None:
        self.observed = observed
        self.now = now
        self.stored = stored
        self.master = name
        self._success = success
        self.job = observed.child(ChildKey("Job", name), BatchJobView)
        uid = self.job.metadata.uid if self.job is not None else ""
        self.master_pods = [pod for pod in observed.pods if _owner_uid(pod) == uid]
        self.worker_pods = [pod for pod in observed.pods if _owner_uid(pod) != uid]

    @property
    def _named(self) -> tuple[str, ...]:
        return self.definition.containers

    # -- the end ------------------------------------------------------------------------------

    @property
    def started(self) -> bool:
        """Whether the master was started; from then on it does not wait for the workers again."""
        return self.job is not None and not self.job.spec.suspend

    def outcome(self) -> Outcome | None:
        """Return how the master's Job has ended, if it has: the training job ends likewise."""
        if self.job is None or self.waiting_for_pods:
            return None
        ended = self.master_stalled(podrecords.read(self.stored.pod_records))
        if (complete := self.job.condition("Complete")) is not None:
            if ended and not self._succeeded_by_itself:
                text = (
                    f"{self._stall_text}; the {self.words.noun} exited with code 0 when it was"
                    " ended for that"
                )
                return Outcome(succeeded=False, reason=stall.NO_PROGRESS, message=text)
            at = self.job.status.get("completionTime") or complete.get("lastTransitionTime")
            return Outcome(
                succeeded=True,
                reason=f"{self.definition.kind}Succeeded",
                message=self._success,
                at=at,
            )
        if (failed := self.job.condition("Failed")) is not None:
            reason, message = failed.get("reason", ""), failed.get("message", "")
            if ended and reason == Cause.BACKOFF_LIMIT.value:
                reason, message = stall.NO_PROGRESS, f"{self._stall_text}; {message}"
            last = self._last_failure()
            if last is not None:
                failure = pods.failure(last, self._named)
                message = f"{message}; {failure}" if message else failure
            return Outcome(
                succeeded=False,
                reason=reason or self.definition.reasons.word(Cause.PROGRAM),
                message=message,
                at=failed.get("lastTransitionTime"),
                probed_at=failed.get("lastProbeTime"),
            )
        return None

    def master_stalled(self, records: Mapping[str, PodRecord]) -> bool:
        """Whether the newest pod of the master is ended because the job made no progress."""
        record, newest = records.get(self.words.place), pods.newest(self.master_pods)
        if record is None or not record.stalled:
            return False
        return newest is None or podrecords.is_of(record, newest)

    def stalled_masters(self) -> list[ObservedPod]:
        """Return the master's pods to delete because it is stored that the job made no progress."""
        records = podrecords.read(self.stored.pod_records)
        return [
            pod
            for pod in self.master_pods
            if podrecords.is_stalled(records, self.words.place, pod) and pod.active
        ]

    def record_stall(self, numbers: Status) -> str:
        """Record in a status that the master is ended; return what is said of that.

        When the record is stored, its pod is deleted, and the Job counts a failed attempt.
        """
        records = podrecords.stall(podrecords.read(numbers.pod_records), {self.words.place})
        numbers.pod_records = podrecords.texts(records)
        return self.words.restarts

    @property
    def _succeeded_by_itself(self) -> bool:
        """Whether the newest pod of the master succeeded before it was deleted."""
        newest = pods.newest(self.master_pods)
        return (
            newest is not None
            and newest.status.phase == "Succeeded"
            and newest.metadata.deletion_timestamp is None
        )

    @property
    def _stall_text(self) -> str:
        return lifecycle.reported_stall(self.stored) or "The job made no progress"

    @property
    def waiting_for_pods(self) -> bool:
        """Whether the Job has failed, and the pod that caused this is not known to have ended.

        A Job fails after its pods; those that it ends itself, for a deadline, are terminating.
        """
        failed = self.job.condition("Failed") if self.job is not None else None
        if failed is None or not failed.get("lastTransitionTime"):
            return False
        age = abs(self.now - parse_time(failed["lastTransitionTime"]))
        return age < timedelta(seconds=WATCH_LAG_SECONDS) and any(
            not pod.finished and pod.metadata.deletion_timestamp is None for pod in self.master_pods
        )

    # -- until then ---------------------------------------------------------------------------

    @property
    def is_master_missing(self) -> bool:
        """Whether the Job should run and has no pod yet."""
        job = self.job
        return job is not None and not (job.spec.suspend or job.finished or self.master_pods)

    def job_start(self) -> str | None:
        """Return the Job's start time, unless it is that of an earlier execution."""
        assert self.job is not None
        return None if self.job.holds("Suspended") else self.job.status.get("startTime")

    def master_progress(
        self, policy: Limits, updated: Status, running: Callable[[ObservedPod], State]
    ) -> State:
        """Return the state of the master, once it was started.

        Args:
            policy: Its limits.
            updated: The status with the counts of this reconcile.
            running: Returns the state of a job whose Job runs this pod.
        """
        assert self.job is not None
        newest = pods.newest(self.master_pods)
        records = podrecords.read(updated.pod_records)
        if self.master_stalled(records) and not self._succeeded_by_itself:
            text = f"{self._stall_text}; {self.words.restarts}"
            return lifecycle.RESTARTING, stall.NO_PROGRESS, text
        if newest is not None and newest.finished:
            was = self.stored.condition(lifecycle.RUNNING)
            failed = sum(pod.status.phase == "Failed" for pod in self.master_pods)
            if was is not None and not (self._retrying(policy) and self._failures() >= failed):
                # The Job controller has not reported yet what follows from that.
                return self._unchanged(was)
        if newest is not None and newest.running:
            return running(newest)
        leaving = newest is not None and newest.metadata.deletion_timestamp is not None
        was = self.stored.condition(lifecycle.RUNNING)
        if (newest is None or leaving) and was is not None and self._past_deadline(policy):
            word, reason, message = self._unchanged(was)
            decided = self.job.condition("FailureTarget")
            if leaving and decided is not None:
                message = decided.get("message") or message
            return word, reason, message
        return self._starting(policy, updated, newest)

    def _starting(self, policy: Limits, updated: Status, newest: ObservedPod | None) -> State:
        """Return the state of a master that does not run: it starts, or is tried again."""
        noun, place = self.words.noun, self.words.place
        trouble = (
            pods.not_ready_reason(newest, self.now, self._named)
            if newest is not None and not newest.finished
            else None
        )
        record = podrecords.read(updated.pod_records).get(place)
        was_ready = record is not None and record.was_ready
        counted = updated.replica_statuses.get(place)
        was_restarted = counted is not None and bool(counted.restarts)
        if self._retrying(policy) or (was_restarted and was_ready):
            reason, message = self._retry_text(policy, newest, trouble)
            return lifecycle.RESTARTING, reason, message
        if newest is not None and newest.metadata.deletion_timestamp is not None and was_ready:
            why = pods.leaving_text(newest)
            message = f"The {noun}'s pod is being deleted{why}; another one starts when it is gone"
            return lifecycle.RESTARTING, self.words.reason("Lost"), message
        message = f"The {noun} is starting."
        if (refused := self.observed.rejections.get(self.master)) is not None:
            trouble = pods.rejection_text(self.master, refused)
        if trouble is not None:
            message = f"The {noun} is not running: {trouble}"
        return "", self.words.reason("Pending"), message

    def _retry_text(
        self, policy: Limits, newest: ObservedPod | None, trouble: str | None
    ) -> tuple[str, str]:
        """Return reason and message of a master that is tried again."""
        noun, limit = self.words.noun, policy.backoff_limit
        retries = f"{self._failures()}/{DEFAULT_BACKOFF_LIMIT if limit is None else limit}"
        again = f"tried again{self._wait(newest)} ({retries} retries used)"
        message = f"The {noun} is {again}"
        reason, last = self.words.reason("Failed"), self._last_failure()
        if stalled := lifecycle.reported_stall(self.stored):
            reason = stall.NO_PROGRESS
            message = f"{stalled}; the {noun} is {again}"
        elif last is not None:
            message += f"; last failure: {pods.failure(last, self._named)}"
        if trouble is not None:
            message += f"; {trouble}"
        return reason, message

    def _unchanged(self, was: Condition) -> State:
        word = lifecycle.RUNNING if was.is_true else ""
        word = lifecycle.RESTARTING if self.stored.holds(lifecycle.RESTARTING) else word
        return word, was.reason, was.message

    def _past_deadline(self, policy: Limits) -> bool:
        """Whether the Job deletes its pods because it has been active for too long.

        The pods are deleted first; the Job reports the reason a moment later.
        """
        assert self.job is not None
        limit, began = policy.active_deadline_seconds, self.job.status.get("startTime")
        over = (
            limit is not None
            and began is not None
            and self.now - parse_time(began) >= timedelta(seconds=limit)
        )
        return over or self.job.holds("FailureTarget")

    def _last_failure(self) -> ObservedPod | None:
        """Return the newest master pod that failed by itself, not because of a deadline."""
        return pods.newest(
            pod
            for pod in self.master_pods
            if pod.status.phase == "Failed" and pod.metadata.deletion_timestamp is None
        )

    def _failures(self) -> int:
        assert self.job is not None
        return int(self.job.status.get("failed") or 0)

    def _wait(self, newest: ObservedPod | None) -> str:
        """Return for how long the Job waits before it creates another pod, as words.

        A Job waits for 10 s after the first failure in a row, then twice as long each time, and at
        most for 600 s (upstream ``DefaultJobPodFailureBackOff``, ``MaxJobPodFailureBackOff``).
        """
        count = self._failures()
        if not count or (newest is not None and not newest.finished):
            return ""
        return runpolicy.backoff_words(timedelta(seconds=min(10 * 2 ** min(count - 1, 6), 600)))

    def _retrying(self, policy: Limits) -> bool:
        """Whether the Job has counted a failure and has retries left."""
        limit = policy.backoff_limit
        limit = DEFAULT_BACKOFF_LIMIT if limit is None else limit
        return 0 < self._failures() <= limit


def _owner_uid(pod: ObservedPod) -> str:
    owner = pod.metadata.controller
    return owner.uid if owner is not None else ""
