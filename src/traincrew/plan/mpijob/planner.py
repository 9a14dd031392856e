"""The decisions for an MPIJob, where they differ from other kinds.

Service, ConfigMap, Secret missing  -> create them
worker missing                      -> create it; one that has ended stays as it is
worker of no place                  -> scaled in: delete it
launcher missing                    -> create its Job, if asked for once all workers are ready
Job finished                        -> finish likewise
worker evicted                      -> Failed
suspended                           -> suspend the Job, delete the workers
no progress                         -> store that, then delete the launcher's pod, which is retried
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api.kinds.mpijob import types as api
from traincrew.api.kinds.mpijob.definition import DEFINITION
from traincrew.api.kinds.mpijob.rules import problems
from traincrew.api.kinds.mpijob.types import LAUNCHER, MPIJobSpec
from traincrew.api.meta import format_time
from traincrew.plan.mpijob import events
from traincrew.plan.mpijob.observed import EVICTED, WAITING, ObservedJob
from traincrew.plan.mpijob.status import status_with_counts
from traincrew.plan.mpijob.writes import Writes
from traincrew.plan.shared import lifecycle, podrecords, pods, runpolicy
from traincrew.plan.shared.gangs.job import GangSize
from traincrew.plan.shared.lifecycle import Outcome, Progress, Status
from traincrew.plan.shared.masterjob import WATCH_LAG_SECONDS
from traincrew.plan.shared.model import ChildKey, Decision, Event, Observed, Plan
from traincrew.plan.shared.planner import JobPlanner
from traincrew.plan.shared.replicas import counts

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.meta import Problem
    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.shared import stall
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.views import ObservedPod


def plan(observed: Observed, now: datetime, options: Options) -> Decision:
    """Decide what a job needs next."""
    return _Planner(observed, now, options).plan()


class _Planner(JobPlanner[MPIJobSpec, Status]):
    """Decides what one MPIJob needs next."""

    definition = DEFINITION
    status_type = Status
    delegates_limits = True
    """The launcher's Job counts its retries and enforces the deadline."""

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        super().__init__(observed, now, options)
        self.current = ObservedJob(self.observed, self.stored, now)
        self.writes = Writes(self.current, self.owner, options)
        self._records = podrecords.read(self.stored.pod_records)
        self._status: dict[bool, Status] = {}

    # -- the kind -----------------------------------------------------------------------------

    def decode(self, spec: dict[str, Any]) -> MPIJobSpec:
        return api.decode(spec)

    def problems(self, spec: MPIJobSpec) -> list[Problem]:
        return problems(self.metadata, spec)

    @property
    def has_started(self) -> bool:
        return self.stored.condition(lifecycle.RUNNING) is not None

    @property
    def is_training(self) -> bool:
        return self.current.started or bool(self.observed.pods)

    def status_with_counts(self, spec: MPIJobSpec | None, *, wanted: bool = True) -> Status:
        if (found := self._status.get(wanted)) is None:
            records = self._records
            if self.observed.confirmed:
                records = podrecords.unrelease(records, self._released_and_present(spec))
            found = status_with_counts(self.current, records, self.owner.name, spec, wanted=wanted)
            self._status[wanted] = found
        return msgspec.structs.replace(found)

    def _released_and_present(self, spec: MPIJobSpec | None) -> set[str]:
        """Return the desired places with a released pod that is not terminating.

        Either it has not been deleted yet, and is desired again; or the cache is stale.
        """
        wanted = set(self.current.wanted(spec)) if spec is not None else set()
        return {
            place
            for pod in self.current.worker_pods
            if pod.metadata.name in wanted
            and pod.metadata.deletion_timestamp is None
            and podrecords.is_released(self._records, place := self.current.place_of(pod), pod)
        }

    def needs_confirmation(self, spec: MPIJobSpec) -> bool:
        if self.policy(spec).suspend:
            return False
        return bool(self.unseen(spec) or self._released_and_present(spec))

    def unseen(self, spec: MPIJobSpec) -> tuple[ChildKey, ...]:  # noqa: ARG002
        """Return the Job, if its pod was seen: without it the launcher would be started again."""
        if self.current.job is None and LAUNCHER in self._records:
            return (ChildKey("Job", self.current.names.launcher),)
        return ()

    def document(self, status: Status) -> dict[str, Any]:
        return counts.document(status, self.observed.job.status, self.now)

    def transitions(self, status: Status) -> list[Event]:
        return events.transitions(self.stored, status, self.current.title)

    def events_on_spec_change(self, spec: MPIJobSpec) -> list[Event]:
        return events.replaced_policies(spec)

    # -- the end ------------------------------------------------------------------------------

    def outcome(self, spec: MPIJobSpec, found: list[Problem]) -> Outcome | None:  # noqa: ARG002
        if (outcome := self.current.outcome()) is not None or self.policy(spec).suspend:
            return outcome
        if evicted := self.current.evicted:
            text = f"{len(evicted)}/{spec.workers} workers are evicted"
            why = pods.first_few([pods.failure(pod) for pod in evicted])
            return Outcome(succeeded=False, reason=EVICTED, message=f"{text}: {why}")
        return None

    def clean_up(self, plan: Plan, policy: CommonPolicy) -> None:
        plan.stages = self.writes.stop_launcher()
        if self.stored.finished:  # not before it is stored how it ended: only these pods show it
            plan.delete_pods(
                pod for pod in self.current.worker_pods if runpolicy.is_cleaned(policy, pod)
            )

    def expire(self, plan: Plan) -> None:
        if self.current.job is not None:
            key = ChildKey("Job", self.current.names.launcher)
            plan.delete_child(key, self.current.job)

    def suspend(self, plan: Plan, spec: MPIJobSpec) -> None:  # noqa: ARG002
        if not self.stored.holds(lifecycle.SUSPENDED):
            self.releasing = True  # first it is stored that these pods are ended by us
            return
        plan.stages = self.writes.stop_launcher()
        for pod in self.current.worker_pods:
            self.delete_released(plan, self._records, self.current.place_of(pod), pod)

    # -- progress -----------------------------------------------------------------------------

    def can_stall(self, spec: MPIJobSpec, numbers: Status) -> bool:
        if not self.current.started:
            return False
        return self.current.launcher_state(spec, numbers)[0] == lifecycle.RUNNING

    def in_reading_order(self, spec: MPIJobSpec) -> list[ObservedPod]:  # noqa: ARG002
        # mpirun in the launcher passes on what the ranks write.
        return [*self.current.master_pods, *self.current.worker_pods]

    def retry(self, spec: MPIJobSpec, numbers: Status, stalled: stall.Stalled) -> str:  # noqa: ARG002
        return self.current.record_stall(numbers)

    def seconds_to_start(
        self,
        spec: MPIJobSpec,
        numbers: Status,  # noqa: ARG002
        progress: Progress,
    ) -> float | None:
        if progress.running or runpolicy.has_run(self.stored):
            return None
        return self.time_left_to_start(self.policy(spec))

    def waits(self, spec: MPIJobSpec, numbers: Status) -> list[float]:  # noqa: ARG002
        return [WATCH_LAG_SECONDS] if self.current.waiting_for_pods else []

    def gang_size(self, spec: MPIJobSpec) -> GangSize:
        members = spec.workers
        if spec.launcher_creation_policy == "AtStartup" or not members:
            members += 1
        return GangSize(needed=members, members=members)

    def pod_templates(self, spec: MPIJobSpec) -> list[dict[str, Any]]:
        return [each.template for each in spec.mpi_replica_specs.values()]

    def write(self, plan: Plan, spec: MPIJobSpec, numbers: Status) -> list[float]:  # noqa: ARG002
        start = spec.launcher_creation_policy == "AtStartup" or self.current.are_ready(spec)
        self.writes.run(plan, spec, start=start)
        if not start:
            plan.coming = self.writes.coming(spec)
        plan.delete = self.writes.outdated_launcher(spec)
        plan.delete_pods(self.current.stalled_masters())
        wanted = set(self.current.wanted(spec))
        for pod in self.current.worker_pods:
            if pod.metadata.name not in wanted:
                self.delete_released(plan, self._records, self.current.place_of(pod), pod)
        if self.current.is_master_missing:
            plan.missing = {self.current.master: self.writes.launcher_pod(spec)}
        return []

    def progress(self, spec: MPIJobSpec, numbers: Status, found: list[Problem]) -> Progress:
        problem = self.sync_problem(found)
        current, start = self.current, self.stored.start_time or format_time(self.now)
        if current.started:
            condition, reason, message = current.launcher_state(spec, numbers)
        else:
            condition, reason, message = "", "LauncherPending", "The launcher is being created."
            if spec.launcher_creation_policy != "AtStartup" and not current.are_ready(spec):
                troubles = current.troubles(spec) or "not all workers are ready"
                reason, message = WAITING, troubles
        if problem is not None and not condition:
            reason, message = problem
        return Progress(
            reason=reason,
            message=message,
            running=condition == lifecycle.RUNNING,
            restarting=condition == lifecycle.RESTARTING,
            started_at=start,
        )


__all__ = ["plan"]
