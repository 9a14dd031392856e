"""What to do about a ChainerJob.

invalid            -> Failed, with the field and the fix
suspended          -> no pods
workers not ready  -> wait, within a budget, saying for what
workers ready      -> the master's Job
Job finished       -> finished for good; workers scaled to zero
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from traincrew.api import chainerjob as api
from traincrew.api.chainerjob_rules import problems
from traincrew.api.meta import Owner, Problem
from traincrew.api.runpolicy import RunPolicy
from traincrew.plan import chainerjob_notes as notes
from traincrew.plan import lifecycle, pods
from traincrew.plan.chainerjob_children import LABEL_SET, Names
from traincrew.plan.chainerjob_writes import Writes
from traincrew.plan.lifecycle import Outcome, Progress, ReplicaStatus, Status
from traincrew.plan.model import (
    ChildKey,
    ChildView,
    Event,
    JobView,
    Observed,
    Plan,
    PodView,
    StatefulSetView,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from traincrew.api.chainerjob import ChainerJobSpec

MASTER = "master"
"""The master's place in ``replicaStatuses`` and ``podRecords``."""
SYNCED = Event("Normal", "Synced", "ChainerJob synced successfully")
FAILED_SYNCED = "FailedSynced"
RESOURCE_EXISTS = "ErrResourceExists"
FOREIGN_RETRY_SECONDS = 30.0
"""Nothing tells us when a foreign object has gone, so we look now and then."""
DEFAULT_BACKOFF_LIMIT = 6  # of batch/v1

View = TypeVar("View", bound=ChildView)


class Options(Struct, frozen=True, kw_only=True):
    """What the operator, rather than the user, decides.

    Attributes:
        helper_image: Image of the init steps; has kubectl at /usr/local/bin/kubectl.
    """

    helper_image: str


def planner(options: Options) -> Callable[[Observed, datetime], Plan]:
    """The plan function of the kind."""
    return partial(plan, options=options)


def plan(observed: Observed, now: datetime, *, options: Options) -> Plan:
    """Decide what a job needs next."""
    return _Look(observed, now, options).plan()


class _Look:
    """One look at one job: its children by role, and what follows from them."""

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        self.observed, self.now, self.options = observed, now, options
        self.metadata = observed.job.metadata
        self.owner = Owner(
            api_version=api.API_VERSION,
            kind=api.KIND,
            name=self.metadata.name,
            namespace=self.metadata.namespace,
            uid=self.metadata.uid,
            labels=self.metadata.labels,
        )
        self.names = Names(self.metadata.name)
        self.stored = lifecycle.read(observed.job.status)
        self.writes = Writes(observed, self.owner, options.helper_image)
        self.job = self.writes.child(ChildKey("Job", self.names.master), JobView)
        uid = self.job.metadata.uid if self.job is not None else ""
        self.master_pods = [pod for pod in observed.pods if _owner_uid(pod) == uid]
        self.worker_pods = [pod for pod in observed.pods if _owner_uid(pod) != uid]

    @property
    def started(self) -> bool:
        """Whether the master has been let go; then the barrier does not come down again."""
        return self.job is not None and not self.job.spec.suspend

    # -- the decision -------------------------------------------------------------------------

    def plan(self) -> Plan:
        if self.metadata.deletion_timestamp is not None:
            return Plan(status=self.observed.job.status)
        try:
            spec = api.decode(self.observed.job.spec)
        except msgspec.ValidationError as error:
            if self.stored.finished:
                return self._finished(RunPolicy())
            return self._invalid([Problem("spec", str(error))])
        if self.stored.finished:
            return self._finished(spec.run_policy)
        found = problems(self.metadata, spec)
        if found and self.job is None:
            return self._invalid(found)
        if not found and (defaults := api.computed_defaults(spec)):
            return Plan(spec=defaults, status=self.observed.job.status)
        if (outcome := self._outcome()) is not None:
            return self._ended(spec, outcome)
        if spec.run_policy.suspend:
            return self._suspended(spec)
        return self._going(spec, found)

    def _invalid(self, found: list[Problem]) -> Plan:
        """Say what is wrong; a job that has not begun to run ends here."""
        text = "; ".join(str(problem) for problem in found)
        outcome = Outcome(
            succeeded=False,
            reason="FailedValidation",
            message=f"{text}. Correct the manifest, delete the job and create it again.",
        )
        status = self._advance(self._counted({}), outcome=outcome)
        plan = self._plan(status, RunPolicy())
        plan.events = [
            Event("Warning", FAILED_SYNCED, problem.event or str(problem)) for problem in found
        ]
        return plan

    def _ended(self, spec: ChainerJobSpec, outcome: Outcome) -> Plan:
        status = self._advance(self._counted(self._wanted(spec)), outcome=outcome)
        plan = self._plan(status, spec.run_policy)
        plan.events = lifecycle.transition_events(self.stored, status)
        return plan

    def _finished(self, policy: RunPolicy) -> Plan:
        """Terminal is final: only what is left of the pods, and of the time to live, changes."""
        counted = self._counted({})
        status = msgspec.structs.replace(
            self.stored,
            replica_statuses=counted.replica_statuses,
            workers_ready=counted.workers_ready,
        )
        plan = self._plan(status, policy)
        left = lifecycle.time_to_live(status, policy, self.now)
        if left is not None:
            plan.look_again_after = left.total_seconds()
            plan.delete_job = plan.look_again_after <= 0
        return plan

    def _suspended(self, spec: ChainerJobSpec) -> Plan:
        none = dict.fromkeys(spec.worker_sets, 0)
        counted = self._counted(none)
        counted.pod_records = lifecycle.release(counted.pod_records)
        active = sum(pod.active for pod in self.observed.pods)
        status = self._advance(counted, suspend=True, active_pods=active)
        plan = Plan(status=self._document(status), stages=self.writes.suspend())
        plan.events = lifecycle.transition_events(self.stored, status)
        return self._finish_plan(plan)

    def _going(self, spec: ChainerJobSpec, found: list[Problem]) -> Plan:
        wanted = self._wanted(spec)
        waiting_for = self._waiting_for(spec)
        counted = self._counted(wanted)
        progress = self._progress(spec, counted, waiting_for, found)
        left = self._budget(spec)
        if not self.started and left <= 0:
            reason = progress.sync_reason or "WorkersNotReady"
            seconds = spec.run_policy.scheduling_policy.schedule_timeout_seconds
            text = f"Not started within {seconds} s: {progress.message}"
            return self._ended(spec, Outcome(succeeded=False, reason=reason, message=text))
        if (refusal := self._permanent_refusal()) is not None:
            outcome = Outcome(succeeded=False, reason=FAILED_SYNCED, message=refusal)
            return self._ended(spec, outcome)
        synced = progress.sync_problem is None
        status = self._advance(counted, progress=progress, synced=synced)
        plan = Plan(status=self._document(status))
        if not found and not self.observed.leftovers:
            plan.stages = self.writes.go(spec, start_master=waiting_for is None)
            plan.delete = self.writes.removed_sets(spec)
        plan.events = lifecycle.transition_events(self.stored, status)
        plan.events += self._sync_events(spec, status, progress)
        if not self.started:
            plan.look_again_after = left
        if progress.sync_reason == RESOURCE_EXISTS:
            plan.look_again_after = min(left, FOREIGN_RETRY_SECONDS)
        return self._finish_plan(plan)

    # -- what is going on ---------------------------------------------------------------------

    def _outcome(self) -> Outcome | None:
        """How the master's Job has ended, if it has: that is how the job has ended."""
        if self.job is None:
            return None
        for condition in self.job.status.get("conditions", []):
            if condition.get("status") != "True":
                continue
            at = condition.get("lastTransitionTime")
            if condition.get("type") == "Complete":
                return Outcome(
                    succeeded=True,
                    reason=f"{api.KIND}Succeeded",
                    message="The master has completed.",
                    at=self.job.status.get("completionTime") or at,
                )
            if condition.get("type") == "Failed":
                message = condition.get("message", "")
                last = pods.newest(pod for pod in self.master_pods if pod.status.phase == "Failed")
                if last is not None:
                    message = f"{message}; {pods.failure(last)}" if message else pods.failure(last)
                return Outcome(
                    succeeded=False,
                    reason=condition.get("reason") or f"{api.KIND}Failed",
                    message=message,
                    at=at,
                    probed_at=condition.get("lastProbeTime"),
                )
        return None

    def _wanted(self, spec: ChainerJobSpec) -> dict[str, int]:
        return {name: workers.replicas for name, workers in spec.worker_sets.items()}

    def _waiting_for(self, spec: ChainerJobSpec) -> str | None:
        """What the workers still lack; None when all of them are ready."""
        ready = total = 0
        complete = True
        names = []
        for name, workers in sorted(spec.worker_sets.items()):
            total += workers.replicas
            key = ChildKey("StatefulSet", self.names.workers(name))
            view = self.writes.child(key, StatefulSetView)
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

    def _progress(
        self,
        spec: ChainerJobSpec,
        counted: Status,
        waiting_for: str | None,
        found: list[Problem],
    ) -> Progress:
        problem = self._sync_problem(found)
        sync_reason, sync_message = problem or ("", None)
        if not self.started:
            reason, message = "MasterPending", "The master is being created."
            if problem is not None:
                reason, message = problem
            elif waiting_for is not None:
                reason, message = "WaitingForWorkers", waiting_for
            return Progress(
                reason=reason, message=message, sync_problem=sync_message, sync_reason=sync_reason
            )
        word, reason, message = self._master_progress(spec, counted)
        return Progress(
            reason=reason,
            message=message,
            running=word == lifecycle.RUNNING,
            restarting=word == lifecycle.RESTARTING,
            started_at=self.stored.start_time or self._job_start(),
            sync_problem=sync_message,
            sync_reason=sync_reason,
        )

    def _master_progress(self, spec: ChainerJobSpec, counted: Status) -> tuple[str, str, str]:
        """Condition that is true (or none), reason and message, once the master was let go."""
        assert self.job is not None
        newest = pods.newest(self.master_pods)
        if newest is not None and newest.finished:
            was = self.stored.condition(lifecycle.RUNNING)
            if was is not None and not self._retrying(spec):
                # The Job controller has not said yet what that means.
                word = lifecycle.RUNNING if was.is_true else ""
                word = lifecycle.RESTARTING if self.stored.holds(lifecycle.RESTARTING) else word
                return word, was.reason, was.message
        if newest is not None and newest.running:
            lost = self._lost_workers(spec, counted)
            if lost:
                return lifecycle.RESTARTING, "WorkersNotReady", lost
            text = "The master is running."
            if total := sum(workers.replicas for workers in spec.worker_sets.values()):
                text = f"The master and {total} workers are running."
            return lifecycle.RUNNING, f"{api.KIND}Running", text
        trouble = pods.trouble(newest) if newest is not None and not newest.finished else None
        if self._retrying(spec) or counted.replica_statuses[MASTER].restarts:
            limit = spec.backoff_limit
            retries = f"{self._failures()}/{DEFAULT_BACKOFF_LIMIT if limit is None else limit}"
            message = f"The master is tried again ({retries} retries used)"
            last = pods.newest(pod for pod in self.master_pods if pod.status.phase == "Failed")
            if last is not None:
                message += f"; last failure: {pods.failure(last)}"
            if trouble is not None:
                message += f"; {trouble}"
            return lifecycle.RESTARTING, "MasterFailed", message
        message = "The master is starting."
        if trouble is not None:
            message = f"The master is not running: {trouble}"
        return "", "MasterPending", message

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
        lines = []
        for set_name, workers in sorted(spec.worker_sets.items()):
            for index in range(workers.replicas):
                name = self.names.worker(set_name, index)
                record = counted.pod_records.get(f"{set_name}-{index}")
                if record is None or not record.was_ready or name in ready:
                    continue
                pod = by_name.get(name)
                text = pods.trouble(pod) if pod is not None else "is gone"
                lines.append(f"{name}: {text}" if text else name)
        return "Workers not ready: " + pods.some(lines) if lines else ""

    def _job_start(self) -> str | None:
        """The Job's start time; the one of an earlier execution is not ours."""
        assert self.job is not None
        suspended = any(
            condition.get("type") == "Suspended" and condition.get("status") == "True"
            for condition in self.job.status.get("conditions", [])
        )
        return None if suspended else self.job.status.get("startTime")

    def _budget(self, spec: ChainerJobSpec) -> float:
        """Seconds the workers still have."""
        since = lifecycle.waiting_since(self.stored) or self.now
        seconds = spec.run_policy.scheduling_policy.schedule_timeout_seconds
        return seconds - (self.now - since).total_seconds()

    # -- what stands in the way ---------------------------------------------------------------

    def _sync_problem(self, found: list[Problem]) -> tuple[str, str] | None:
        if found:
            return FAILED_SYNCED, "; ".join(str(problem) for problem in found)
        for key, refusal in self.observed.refusals.items():
            if refusal.foreign:
                text = f'Resource "{key.name}" already exists and is not managed by {api.KIND}'
                return RESOURCE_EXISTS, text
            return FAILED_SYNCED, f"{key.kind} {key.name}: {pods.shorten(refusal.message)}"
        for key in sorted(self.observed.leftovers):
            text = (
                f"{key.kind} {key.name} of an earlier {api.KIND} of this name is still being"
                " deleted"
            )
            return "WaitingForDeletion", text
        return None

    def _permanent_refusal(self) -> str | None:
        for key, refusal in self.observed.refusals.items():
            if refusal.permanent and not self.started:
                return f"{key.kind} {key.name}: {pods.shorten(refusal.message, 1000)}"
        return None

    def _sync_events(self, spec: ChainerJobSpec, status: Status, progress: Progress) -> list[Event]:
        if progress.sync_problem is not None:
            before = self.stored.condition(lifecycle.SYNCED)
            if progress.sync_reason == "WaitingForDeletion" or (
                before is not None and before.message == progress.sync_problem
            ):
                return []
            return [Event("Warning", progress.sync_reason, progress.sync_problem)]
        was_synced = self.stored.condition(lifecycle.SYNCED) is None
        if was_synced and status.observed_generation == self.stored.observed_generation:
            return []
        return [SYNCED, *notes.warnings(self.owner, spec, self.job)]

    # -- the status ---------------------------------------------------------------------------

    def _counted(self, wanted: dict[str, int]) -> Status:
        """The stored status with the numbers of this look."""
        prefix = self.names.workers("")
        places: dict[str, list[PodView]] = {MASTER: self.master_pods}
        for name, replicas in wanted.items():
            places.update({f"{name}-{index}": [] for index in range(replicas)})
        for pod in self.worker_pods:
            places.setdefault(pod.metadata.name.removeprefix(prefix), []).append(pod)
        records, new = lifecycle.count_restarts(self.stored.pod_records, places)

        before = self.stored.replica_statuses
        master = before.get(MASTER, ReplicaStatus())
        job = self.job.status if self.job is not None else {}
        statuses = {
            MASTER: _numbers(
                self.master_pods,
                restarts=master.restarts + new[MASTER],
                succeeded=max(master.succeeded or 0, int(job.get("succeeded") or 0)),
                failed=max(master.failed or 0, int(job.get("failed") or 0)),
            )
        }
        by_set: dict[str, list[PodView]] = {name: [] for name in sorted(wanted)}
        for pod in self.worker_pods:
            by_set.setdefault(pod.metadata.labels.get(LABEL_SET, ""), []).append(pod)
        if self.stored.finished:
            by_set = {name: by_set.get(name, []) for name in (*before, *by_set) if name != MASTER}
        for name, members in by_set.items():
            restarts = before.get(name, ReplicaStatus()).restarts
            restarts += sum(new[pod.metadata.name.removeprefix(prefix)] for pod in members)
            statuses[name] = _numbers(members, restarts=restarts)
        ready = sum(status.ready for name, status in statuses.items() if name != MASTER)
        total = sum(wanted.values())
        return msgspec.structs.replace(
            self.stored,
            replica_statuses=statuses,
            pod_records=records,
            restarts=self.stored.restarts + sum(new.values()),
            workers_ready=f"{min(ready, total)}/{total}" if len(statuses) > 1 else "",
        )

    def _advance(
        self,
        counted: Status,
        *,
        outcome: Outcome | None = None,
        progress: Progress | None = None,
        suspend: bool = False,
        active_pods: int = 0,
        synced: bool = True,
    ) -> Status:
        generation = self.metadata.generation if synced else self.stored.observed_generation
        return lifecycle.advance(
            counted,
            kind=api.KIND,
            generation=generation,
            now=self.now,
            outcome=outcome,
            suspend=suspend,
            active_pods=active_pods,
            progress=progress,
        )

    def _document(self, status: Status) -> dict[str, Any]:
        """The whole status: the Job's own, which is the contract, with the shared part over it."""
        if self.stored.finished or self.job is None:
            base = self.observed.job.status if self.stored.finished else {}
        else:
            base = self.job.status
        shared = lifecycle.document(status)
        others = [
            condition
            for condition in base.get("conditions", [])
            if condition.get("type") not in lifecycle.OWN_CONDITIONS
        ]
        replaced = {"startTime", "completionTime", *Status.__struct_encode_fields__}
        kept = {name: value for name, value in base.items() if name not in replaced}
        return {
            "restarts": 0,
            **kept,
            **shared,
            "conditions": [*shared.get("conditions", []), *others],
        }

    def _plan(self, status: Status, policy: RunPolicy) -> Plan:
        """The plan of a job that has ended."""
        plan = Plan(status=self._document(status), stages=self.writes.stop(policy))
        if policy.clean_pod_policy == "All":
            plan.delete = {
                ChildKey("Pod", pod.metadata.name): pod.metadata.uid
                for pod in self.master_pods
                if pod.metadata.deletion_timestamp is None
            }
        return self._finish_plan(plan)

    def _finish_plan(self, plan: Plan) -> Plan:
        plan.urgent = lifecycle.is_urgent(self.observed.job.status, plan.status)
        return plan


def _owner_uid(pod: PodView) -> str:
    owner = pod.metadata.controller
    return owner.uid if owner is not None else ""


def _numbers(members: list[PodView], **counters: int) -> ReplicaStatus:
    return ReplicaStatus(
        active=sum(pod.active for pod in members),
        ready=sum(pod.ready for pod in members),
        **counters,
    )
