"""The observed state of a ChainerJob: its children by role, and their status."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from traincrew.api.kinds.chainerjob import types as api
from traincrew.api.kinds.chainerjob.definition import DEFINITION
from traincrew.api.kinds.chainerjob.types import MASTER
from traincrew.api.meta import parse_time
from traincrew.api.reasons import Cause
from traincrew.plan.chainerjob.children import Names
from traincrew.plan.shared import lifecycle, podrecords, pods, runpolicy, stall
from traincrew.plan.shared.lifecycle import Outcome, Status
from traincrew.plan.shared.model import ChildKey, Observed
from traincrew.plan.shared.views import BatchJobView, ObservedPod, StatefulSetView

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from traincrew.api.kinds.chainerjob.types import ChainerJobSpec
    from traincrew.api.meta import Condition
    from traincrew.plan.shared.podrecords import PodRecord

NAMED = DEFINITION.containers
DEFAULT_BACKOFF_LIMIT = 6  # of batch/v1
MASTER_RESTARTS = "the master is restarted"
WATCH_LAG_SECONDS = 5.0
"""How far the watch of pods may lag behind the watch of their Job."""


class ObservedJob:
    """One job with its children, as a reconcile sees them."""

    def __init__(self, observed: Observed, stored: Status, now: datetime) -> None:
        self.observed = observed
        self.now = now
        self.names = Names(observed.job.metadata.name)
        self.stored = stored
        self.job = observed.child(ChildKey("Job", self.names.master), BatchJobView)
        uid = self.job.metadata.uid if self.job is not None else ""
        self.master_pods = [pod for pod in observed.pods if _owner_uid(pod) == uid]
        self.worker_pods = [pod for pod in observed.pods if _owner_uid(pod) != uid]

    @property
    def started(self) -> bool:
        """Whether the master was started; from then on it does not wait for the workers again."""
        return self.job is not None and not self.job.spec.suspend

    def by_place(self) -> dict[str, list[ObservedPod]]:
        """Return the existing pods, by the key of their place."""
        found: dict[str, list[ObservedPod]] = {MASTER: self.master_pods} if self.master_pods else {}
        for pod in self.worker_pods:
            found.setdefault(self.place_of(pod), []).append(pod)
        return found

    def place_of(self, worker: ObservedPod) -> str:
        """Return the key of the place of a worker: its set and its index."""
        return worker.metadata.name.removeprefix(self.names.workers(""))

    def outcome(self) -> Outcome | None:
        """Return how the master's Job has ended, if it has: the training job ends likewise."""
        if self.job is None or self.waiting_for_pods:
            return None
        ended = self.master_stalled(podrecords.read(self.stored.pod_records))
        if (complete := self.job.condition("Complete")) is not None:
            if ended and not self._succeeded_by_itself:
                text = (
                    f"{self._stall_text}; the master exited with code 0 when it was ended for that"
                )
                return Outcome(succeeded=False, reason=stall.NO_PROGRESS, message=text)
            at = self.job.status.get("completionTime") or complete.get("lastTransitionTime")
            return Outcome(
                succeeded=True,
                reason=f"{api.KIND}Succeeded",
                message="The master has completed.",
                at=at,
            )
        if (failed := self.job.condition("Failed")) is not None:
            reason, message = failed.get("reason", ""), failed.get("message", "")
            if ended and reason == Cause.BACKOFF_LIMIT.value:
                reason, message = stall.NO_PROGRESS, f"{self._stall_text}; {message}"
            last = self._last_failure()
            if last is not None:
                message = (
                    f"{message}; {pods.failure(last, NAMED)}"
                    if message
                    else pods.failure(last, NAMED)
                )
            return Outcome(
                succeeded=False,
                reason=reason or DEFINITION.reasons.word(Cause.PROGRAM),
                message=message,
                at=failed.get("lastTransitionTime"),
                probed_at=failed.get("lastProbeTime"),
            )
        return None

    def master_stalled(self, records: Mapping[str, PodRecord]) -> bool:
        """Whether the newest pod of the master is ended because the job made no progress."""
        record, newest = records.get(MASTER), pods.newest(self.master_pods)
        if record is None or not record.stalled:
            return False
        return newest is None or podrecords.is_of(record, newest)

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

    def waiting_for(self, spec: ChainerJobSpec) -> str | None:
        """Return why the workers are not ready; None when all of them are."""
        ready = total = 0
        complete = True
        names = []
        for name, workers in sorted(spec.worker_sets.items()):
            total += workers.replicas
            key = ChildKey("StatefulSet", self.names.workers(name))
            view = self.observed.child(key, StatefulSetView)
            if workers.replicas == 0:
                continue
            names += [self.names.worker(name, index) for index in range(workers.replicas)]
            if view is None:
                complete = False
                continue
            ready += min(view.status.ready_replicas, workers.replicas)
            complete &= (
                view.spec.replicas == workers.replicas
                and view.is_observed
                and view.status.ready_replicas == workers.replicas
                and view.status.replicas == workers.replicas
            )
        if complete:
            return None
        text = f"{ready}/{total} workers ready"
        troubles = pods.list_not_ready(
            names,
            self.worker_pods,
            self.observed.rejections,
            lambda pod: pods.not_ready_reason(pod, self.now, NAMED),
        )
        return f"{text}; {troubles}" if troubles else text

    def missing_workers(self, spec: ChainerJobSpec) -> dict[str, str]:
        """Return the first missing pod of each existing StatefulSet, with its worker set."""
        there = {pod.metadata.name for pod in self.worker_pods}
        missing = {}
        for name, workers in sorted(spec.worker_sets.items()):
            if ChildKey("StatefulSet", self.names.workers(name)) not in self.observed.children:
                continue
            wanted = (self.names.worker(name, index) for index in range(workers.replicas))
            first = next((each for each in wanted if each not in there), None)
            if first is not None:
                missing[first] = name
        return missing

    @property
    def is_master_missing(self) -> bool:
        """Whether the Job should run and has no pod yet."""
        job = self.job
        return job is not None and not (job.spec.suspend or job.finished or self.master_pods)

    def master_progress(self, spec: ChainerJobSpec, updated: Status) -> tuple[str, str, str]:
        """Return the true condition (or ""), reason and message, once the master was started."""
        assert self.job is not None
        newest = pods.newest(self.master_pods)
        records = podrecords.read(updated.pod_records)
        if self.master_stalled(records) and not self._succeeded_by_itself:
            return lifecycle.RESTARTING, stall.NO_PROGRESS, f"{self._stall_text}; {MASTER_RESTARTS}"
        if newest is not None and newest.finished:
            was = self.stored.condition(lifecycle.RUNNING)
            failed = sum(pod.status.phase == "Failed" for pod in self.master_pods)
            if was is not None and not (self._retrying(spec) and self._failures() >= failed):
                # The Job controller has not reported yet what follows from that.
                return self._unchanged(was)
        if newest is not None and newest.running:
            lost = self._lost_workers(spec, updated)
            if lost:
                return lifecycle.RESTARTING, "WorkersNotReady", lost
            text = "The master is running."
            if total := sum(workers.replicas for workers in spec.worker_sets.values()):
                text = f"The master and {pods.quantity(total, 'worker')} are running."
            if lost_master := pods.list_lost([newest]):
                text = f"{text.rstrip('.')}; {lost_master}"
            return lifecycle.RUNNING, f"{api.KIND}Running", text
        leaving = newest is not None and newest.metadata.deletion_timestamp is not None
        was = self.stored.condition(lifecycle.RUNNING)
        if (newest is None or leaving) and was is not None and self._past_deadline(spec):
            word, reason, message = self._unchanged(was)
            decided = self.job.condition("FailureTarget")
            if leaving and decided is not None:
                message = decided.get("message") or message
            return word, reason, message
        trouble = (
            pods.not_ready_reason(newest, self.now, NAMED)
            if newest is not None and not newest.finished
            else None
        )
        record = records.get(MASTER)
        was_ready = record is not None and record.was_ready
        if self._retrying(spec) or (updated.replica_statuses[MASTER].restarts and was_ready):
            reason, message = self._retry_text(spec, newest, trouble)
            return lifecycle.RESTARTING, reason, message
        if newest is not None and leaving and was_ready:
            why = pods.leaving_text(newest)
            message = f"The master's pod is being deleted{why}; another one starts when it is gone"
            return lifecycle.RESTARTING, "MasterLost", message
        message = "The master is starting."
        if (refused := self.observed.rejections.get(self.names.master)) is not None:
            trouble = pods.rejection_text(self.names.master, refused)
        if trouble is not None:
            message = f"The master is not running: {trouble}"
        return "", "MasterPending", message

    def _retry_text(
        self, spec: ChainerJobSpec, newest: ObservedPod | None, trouble: str | None
    ) -> tuple[str, str]:
        """Return reason and message of a master that is tried again."""
        limit = spec.backoff_limit
        retries = f"{self._failures()}/{DEFAULT_BACKOFF_LIMIT if limit is None else limit}"
        again = f"tried again{self._wait(newest)} ({retries} retries used)"
        message = f"The master is {again}"
        reason, last = "MasterFailed", self._last_failure()
        if stalled := lifecycle.reported_stall(self.stored):
            reason = stall.NO_PROGRESS
            message = f"{stalled}; the master is {again}"
        elif last is not None:
            message += f"; last failure: {pods.failure(last, NAMED)}"
        if trouble is not None:
            message += f"; {trouble}"
        return reason, message

    def job_start(self) -> str | None:
        """Return the Job's start time, unless it is that of an earlier execution."""
        assert self.job is not None
        return None if self.job.holds("Suspended") else self.job.status.get("startTime")

    def _unchanged(self, was: Condition) -> tuple[str, str, str]:
        word = lifecycle.RUNNING if was.is_true else ""
        word = lifecycle.RESTARTING if self.stored.holds(lifecycle.RESTARTING) else word
        return word, was.reason, was.message

    def _past_deadline(self, spec: ChainerJobSpec) -> bool:
        """Whether the Job deletes its pods because it has been active for too long.

        The pods are deleted first; the Job reports the reason a moment later.
        """
        assert self.job is not None
        limit, began = spec.active_deadline_seconds, self.job.status.get("startTime")
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

    def _retrying(self, spec: ChainerJobSpec) -> bool:
        """Whether the Job has counted a failure and has retries left."""
        limit = spec.backoff_limit
        limit = DEFAULT_BACKOFF_LIMIT if limit is None else limit
        return 0 < self._failures() <= limit

    def _lost_workers(self, spec: ChainerJobSpec, updated: Status) -> str:
        """List workers that were ready and no longer are; new workers do not count."""
        ready = {pod.metadata.name for pod in self.worker_pods if pod.ready}
        by_name = {pod.metadata.name: pod for pod in self.worker_pods}
        records = podrecords.read(updated.pod_records)
        lines = []
        for set_name, workers in sorted(spec.worker_sets.items()):
            for index in range(workers.replicas):
                name = self.names.worker(set_name, index)
                record = records.get(f"{set_name}-{index}")
                if record is None or not record.was_ready or name in ready:
                    continue
                pod = by_name.get(name)
                text = pods.not_ready_reason(pod, self.now, NAMED) if pod is not None else "is gone"
                lines.append(f"{name}: {text}" if text else name)
        return "Workers not ready: " + pods.first_few(lines) if lines else ""


def _owner_uid(pod: ObservedPod) -> str:
    owner = pod.metadata.controller
    return owner.uid if owner is not None else ""
