"""What is going on with a ChainerJob: its children by role, and what they say."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from traincrew.api import chainerjob as api
from traincrew.api.chainerjob import MASTER
from traincrew.api.meta import parse_time
from traincrew.plan import lifecycle, podrecords, pods
from traincrew.plan.chainerjob_children import Names
from traincrew.plan.lifecycle import Outcome, Status
from traincrew.plan.model import ChildKey, JobView, Observed, PodView, StatefulSetView

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.chainerjob import ChainerJobSpec
    from traincrew.api.meta import Condition

DEFAULT_BACKOFF_LIMIT = 6  # of batch/v1
LAG_SECONDS = 5.0
"""How far what is known of pods may be behind what is known of their Job: two watches."""


class Facts:
    """One look at one job."""

    def __init__(self, observed: Observed, stored: Status, now: datetime) -> None:
        self.observed = observed
        self.now = now
        self.names = Names(observed.job.metadata.name)
        self.stored = stored
        self.job = observed.child(ChildKey("Job", self.names.master), JobView)
        uid = self.job.metadata.uid if self.job is not None else ""
        self.master_pods = [pod for pod in observed.pods if _owner_uid(pod) == uid]
        self.worker_pods = [pod for pod in observed.pods if _owner_uid(pod) != uid]

    @property
    def started(self) -> bool:
        """Whether the master has been let go; then the barrier does not come down again."""
        return self.job is not None and not self.job.spec.suspend

    def outcome(self) -> Outcome | None:
        """How the master's Job has ended, if it has: that is how the job has ended."""
        if self.job is None or self.waiting_for_pods:
            return None
        if (complete := self.job.condition("Complete")) is not None:
            at = self.job.status.get("completionTime") or complete.get("lastTransitionTime")
            return Outcome(
                succeeded=True,
                reason=f"{api.KIND}Succeeded",
                message="The master has completed.",
                at=at,
            )
        if (failed := self.job.condition("Failed")) is not None:
            message = failed.get("message", "")
            last = self._last_failure()
            if last is not None:
                message = f"{message}; {pods.failure(last)}" if message else pods.failure(last)
            return Outcome(
                succeeded=False,
                reason=failed.get("reason") or f"{api.KIND}Failed",
                message=message,
                at=failed.get("lastTransitionTime"),
                probed_at=failed.get("lastProbeTime"),
            )
        return None

    @property
    def waiting_for_pods(self) -> bool:
        """Whether the Job has failed, and the pod by which it did is not known to have ended.

        A Job fails after its pods; those it ends itself, for a deadline, are being deleted.
        """
        failed = self.job.condition("Failed") if self.job is not None else None
        if failed is None or not failed.get("lastTransitionTime"):
            return False
        age = abs(self.now - parse_time(failed["lastTransitionTime"]))
        return age < timedelta(seconds=LAG_SECONDS) and any(
            not pod.finished and pod.metadata.deletion_timestamp is None for pod in self.master_pods
        )

    def waiting_for(self, spec: ChainerJobSpec) -> str | None:
        """What the workers still lack; None when all of them are ready."""
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
                and view.status.observed_generation >= view.metadata.generation
                and view.status.ready_replicas == workers.replicas
                and view.status.replicas == workers.replicas
            )
        if complete:
            return None
        text = f"{ready}/{total} workers ready"
        troubles = pods.list_troubles(names, self.worker_pods)
        return f"{text}; {troubles}" if troubles else text

    def master_progress(self, spec: ChainerJobSpec, counted: Status) -> tuple[str, str, str]:
        """Condition that is true (or none), reason and message, once the master was let go."""
        assert self.job is not None
        newest = pods.newest(self.master_pods)
        if newest is not None and newest.finished:
            was = self.stored.condition(lifecycle.RUNNING)
            failed = sum(pod.status.phase == "Failed" for pod in self.master_pods)
            if was is not None and not (self._retrying(spec) and self._failures() >= failed):
                # The Job controller has not said yet what that means.
                return self._as_before(was)
        if newest is not None and newest.running:
            lost = self._lost_workers(spec, counted)
            if lost:
                return lifecycle.RESTARTING, "WorkersNotReady", lost
            text = "The master is running."
            if total := sum(workers.replicas for workers in spec.worker_sets.values()):
                text = f"The master and {total} workers are running."
            return lifecycle.RUNNING, f"{api.KIND}Running", text
        leaving = newest is not None and newest.metadata.deletion_timestamp is not None
        was = self.stored.condition(lifecycle.RUNNING)
        if (newest is None or leaving) and was is not None and self._overdue(spec):
            return self._as_before(was)
        trouble = pods.trouble(newest) if newest is not None and not newest.finished else None
        if self._retrying(spec) or counted.replica_statuses[MASTER].restarts:
            limit = spec.backoff_limit
            retries = f"{self._failures()}/{DEFAULT_BACKOFF_LIMIT if limit is None else limit}"
            message = f"The master is tried again ({retries} retries used)"
            last = self._last_failure()
            if last is not None:
                message += f"; last failure: {pods.failure(last)}"
            if trouble is not None:
                message += f"; {trouble}"
            return lifecycle.RESTARTING, "MasterFailed", message
        record = podrecords.read(counted.pod_records).get(MASTER)
        if leaving and record is not None and record.was_ready:
            message = "The master's pod is being deleted; another one starts when it is gone"
            return lifecycle.RESTARTING, "MasterLost", message
        message = "The master is starting."
        if trouble is not None:
            message = f"The master is not running: {trouble}"
        return "", "MasterPending", message

    def job_start(self) -> str | None:
        """The Job's start time; the one of an earlier execution is not ours."""
        assert self.job is not None
        return None if self.job.holds("Suspended") else self.job.status.get("startTime")

    def _as_before(self, was: Condition) -> tuple[str, str, str]:
        word = lifecycle.RUNNING if was.is_true else ""
        word = lifecycle.RESTARTING if self.stored.holds(lifecycle.RESTARTING) else word
        return word, was.reason, was.message

    def _overdue(self, spec: ChainerJobSpec) -> bool:
        """Whether the Job ends its pods because it has been active for too long.

        Pods go first; the Job says why a moment later.
        """
        assert self.job is not None
        limit, began = spec.active_deadline_seconds, self.job.status.get("startTime")
        over = (
            limit is not None
            and began is not None
            and self.now - parse_time(began) >= timedelta(seconds=limit)
        )
        return over or self.job.holds("FailureTarget")

    def _last_failure(self) -> PodView | None:
        """The last master that failed by itself; the deadline, say, deletes those it ends."""
        return pods.newest(
            pod
            for pod in self.master_pods
            if pod.status.phase == "Failed" and pod.metadata.deletion_timestamp is None
        )

    def _failures(self) -> int:
        assert self.job is not None
        return int(self.job.status.get("failed") or 0)

    def _retrying(self, spec: ChainerJobSpec) -> bool:
        """Whether the Job has counted a failure and has a retry left."""
        limit = spec.backoff_limit
        limit = DEFAULT_BACKOFF_LIMIT if limit is None else limit
        return 0 < self._failures() <= limit

    def _lost_workers(self, spec: ChainerJobSpec, counted: Status) -> str:
        """Workers that were ready and are not any more; those being added do not count."""
        ready = {pod.metadata.name for pod in self.worker_pods if pod.ready}
        by_name = {pod.metadata.name: pod for pod in self.worker_pods}
        records = podrecords.read(counted.pod_records)
        lines = []
        for set_name, workers in sorted(spec.worker_sets.items()):
            for index in range(workers.replicas):
                name = self.names.worker(set_name, index)
                record = records.get(f"{set_name}-{index}")
                if record is None or not record.was_ready or name in ready:
                    continue
                pod = by_name.get(name)
                text = pods.trouble(pod) if pod is not None else "is gone"
                lines.append(f"{name}: {text}" if text else name)
        return "Workers not ready: " + pods.some(lines) if lines else ""


def _owner_uid(pod: PodView) -> str:
    owner = pod.metadata.controller
    return owner.uid if owner is not None else ""
