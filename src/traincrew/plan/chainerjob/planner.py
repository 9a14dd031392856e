"""The decisions for a ChainerJob, where they differ from other kinds.

workers not ready  -> wait for them, up to scheduleTimeoutSeconds
workers ready      -> start the master's Job
Job finished       -> finish; scale the workers to zero
resumed            -> delete the suspended Job if its template has changed; a new one follows
no progress        -> store that, then delete the master's pod: its Job counts a failed attempt
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api.kinds.chainerjob import types as api
from traincrew.api.kinds.chainerjob.definition import DEFINITION
from traincrew.api.kinds.chainerjob.rules import problems
from traincrew.api.kinds.chainerjob.types import MASTER
from traincrew.api.runpolicy import RunPolicy
from traincrew.plan.chainerjob import events
from traincrew.plan.chainerjob.edits import Edits
from traincrew.plan.chainerjob.grants import grant
from traincrew.plan.chainerjob.observed import MASTER_RESTARTS, WATCH_LAG_SECONDS, ObservedJob
from traincrew.plan.chainerjob.status import document, status_with_counts
from traincrew.plan.chainerjob.writes import Writes
from traincrew.plan.shared import master, podrecords, stall
from traincrew.plan.shared.lifecycle import Outcome, Progress, Status
from traincrew.plan.shared.model import ChildKey, Event, Observed, Plan
from traincrew.plan.shared.planner import RESOURCE_EXISTS, RESOURCE_EXISTS_RETRY_SECONDS, JobPlanner

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.kinds.chainerjob.types import ChainerJobSpec
    from traincrew.api.meta import Problem
    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.shared.kind import Options

SYNCED = Event("Normal", "Synced", "ChainerJob synced successfully")


def plan(observed: Observed, now: datetime, options: Options) -> Plan:
    """Decide what a job needs next."""
    return _Planner(observed, now, options).plan()


class _Planner(JobPlanner[api.ChainerJobSpec, Status]):
    """Decides what one ChainerJob needs next."""

    definition = DEFINITION
    status_type = Status
    suspend_field = "spec.runPolicy.suspend"
    default_policy = RunPolicy()

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        super().__init__(observed, now, options)
        self.current = ObservedJob(observed, self.stored, now)
        self.writes = Writes(observed, self.owner, options)

    # -- the kind -----------------------------------------------------------------------------

    def decode(self, spec: dict[str, Any]) -> ChainerJobSpec:
        return api.decode(spec)

    def policy(self, spec: ChainerJobSpec) -> RunPolicy:
        return spec.run_policy

    def problems(self, spec: ChainerJobSpec) -> list[Problem]:
        return problems(self.metadata, spec)

    @property
    def has_started(self) -> bool:
        return self.current.job is not None

    def status_with_counts(self, spec: ChainerJobSpec | None, *, wanted: bool = True) -> Status:
        if spec is None:
            return status_with_counts(self.current, {})
        replicas = {name: workers.replicas for name, workers in spec.worker_sets.items()}
        if not wanted:
            replicas = dict.fromkeys(replicas, 0)
        slots = {name: api.slots(workers) for name, workers in spec.worker_sets.items()}
        if spec.distributed:
            slots[api.MASTER] = api.slots(spec.master)
        return status_with_counts(self.current, replicas, self._edits(spec), slots)

    def _edits(self, spec: ChainerJobSpec) -> Edits:
        return Edits(self.current, spec, suspended=bool(self.policy(spec).suspend))

    def needs_confirmation(self, spec: ChainerJobSpec) -> bool:
        return bool(self.unseen(spec)) or self._edits(spec).needs_confirmation

    def unseen(self, spec: ChainerJobSpec) -> tuple[ChildKey, ...]:
        """Return the Job, if it has run: without it the job would seem not to have started."""
        if self.current.job is None and self.stored.start_time and not self.policy(spec).suspend:
            return (ChildKey("Job", self.current.names.master),)
        return ()

    def document(self, status: Status) -> dict[str, Any]:
        return document(self.current, status)

    def outcome(self, spec: ChainerJobSpec, found: list[Problem]) -> Outcome | None:  # noqa: ARG002
        return self.current.outcome()

    def clean_up(self, plan: Plan, policy: CommonPolicy) -> None:
        plan.stages = self.writes.clean_up(policy, at_rest=self.is_at_rest)
        plan.delete = {
            ChildKey("Pod", pod.metadata.name): pod.metadata.uid
            for pod in self.current.master_pods
            if policy.clean_pod_policy == "All" and pod.metadata.deletion_timestamp is None
        }

    def suspend(self, plan: Plan, spec: ChainerJobSpec) -> None:
        edits = self._edits(spec)
        self.releasing = edits.releasing
        plan.stages = self.writes.suspend(edits)

    def events_on_spec_change(self, spec: ChainerJobSpec) -> list[Event]:
        return [SYNCED, *events.warnings(self.owner, spec, self.current.job)]

    # -- progress -----------------------------------------------------------------------------

    def plan_end(self, spec: ChainerJobSpec, outcome: Outcome) -> Plan:
        plan = super().plan_end(spec, outcome)
        if "workersReady" in plan.status:
            # No worker is wanted any more. Said at once, since nothing changes a job at rest.
            plan.status = {**plan.status, "workersReady": "0/0"}
        if outcome.succeeded:
            plan.events += events.lost_workers(self.status_with_counts(spec))
        return plan

    def plan_active(self, spec: ChainerJobSpec, found: list[Problem]) -> Plan:
        waiting_for = self.current.waiting_for(spec)
        numbers = self.status_with_counts(spec)
        progress = self._progress(spec, numbers, waiting_for, found)
        limit = spec.run_policy.scheduling_policy
        left = self.time_left_to_start(limit)
        if not self.current.started:
            if left <= 0:
                return self.plan_end(spec, self.not_started_in_time(limit, progress))
            if (refusal := self.permanent_refusal()) is not None:
                return self.plan_end(spec, refusal)
        verdict = self._assess(spec) if progress.running and not found else None
        if (needed := self.knowledge_for(verdict)) is not None:
            return needed
        if isinstance(verdict, stall.Stalled):
            progress = self._restart_master(numbers, progress, verdict)
        status = self.advance(numbers, progress=progress)
        plan = Plan(status=self.document(status))
        if not found and not self.observed.leftovers:
            edits = self._edits(spec)
            self.releasing |= edits.releasing
            found_pods = grant(self.observed, spec)
            # The status of a StatefulSet may be known before its pods are.
            start = waiting_for is None and found_pods.complete
            plan.stages = self.writes.run(spec, edits, found_pods, start_master=start)
            if not start:
                plan.coming = self.writes.coming(spec)
            plan.delete = {
                **self.writes.removed_sets(spec, edits),
                **self.writes.outdated_master(spec),
                **self._stalled_masters(),
            }
            plan.missing = self._missing(spec)
        else:
            plan.stages = self.writes.narrow()
        plan.events = self.transitions(status)
        plan.events += self.sync_events(spec, status, progress)
        if not self.current.started:
            plan.requeue_after = left
        elif self.current.waiting_for_pods:
            plan.requeue_after = WATCH_LAG_SECONDS
        elif isinstance(verdict, stall.Wait):
            plan.requeue_after = verdict.seconds
        if progress.sync_reason == RESOURCE_EXISTS:
            plan.requeue_after = min(left, RESOURCE_EXISTS_RETRY_SECONDS)
        return self.complete(plan)

    def _assess(self, spec: ChainerJobSpec) -> stall.Verdict | None:
        # mpiexec in the master passes on what the workers write.
        in_order = (*self.current.master_pods, *self.current.worker_pods)
        return stall.assess(self.observed, spec.run_policy, self.now, in_order)

    def _restart_master(
        self, numbers: Status, progress: Progress, stalled: stall.Stalled
    ) -> Progress:
        """Record that the master is ended, and how that is reported."""
        records = podrecords.stall(podrecords.read(numbers.pod_records), {MASTER})
        numbers.pod_records = podrecords.texts(records)
        self.releasing = True
        return msgspec.structs.replace(
            progress,
            reason=stall.NO_PROGRESS,
            message=f"{stalled.message}; {MASTER_RESTARTS}",
            running=False,
            restarting=True,
        )

    def _stalled_masters(self) -> dict[ChildKey, str]:
        """Return the master's pods to delete because it is stored that the job made no progress."""
        records = podrecords.read(self.stored.pod_records)
        return {
            ChildKey("Pod", pod.metadata.name): pod.metadata.uid
            for pod in self.current.master_pods
            if podrecords.is_stalled(records, MASTER, pod)
            and pod.active
            and pod.metadata.deletion_timestamp is None
        }

    def _missing(self, spec: ChainerJobSpec) -> dict[str, dict[str, Any]]:
        missing = {
            name: self.writes.worker_pod(spec, set_name, name)
            for name, set_name in self.current.missing_workers(spec).items()
        }
        if self.current.is_master_missing:
            missing[self.current.names.master] = self.writes.master_pod(spec)
        return missing

    def _progress(
        self,
        spec: ChainerJobSpec,
        numbers: Status,
        waiting_for: str | None,
        found: list[Problem],
    ) -> Progress:
        started = self.current.started
        return master.progress(
            self.current.master_progress(spec, numbers) if started else None,
            problem=self.sync_problem(found),
            waiting_for=waiting_for,
            started_at=self.stored.start_time or (self.current.job_start() if started else None),
        )
