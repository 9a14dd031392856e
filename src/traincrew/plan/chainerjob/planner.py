"""The decisions for a ChainerJob, where they differ from other kinds.

workers not ready  -> wait for them, up to scheduleTimeoutSeconds
workers ready      -> start the master's Job
Job finished       -> finish; scale the workers to zero
resumed            -> delete the suspended Job if its template has changed; a new one follows
no progress        -> store that, then delete the master's pod: its Job counts a failed attempt
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.chainerjob import types as api
from traincrew.api.kinds.chainerjob.definition import DEFINITION
from traincrew.api.kinds.chainerjob.rules import problems
from traincrew.api.kinds.chainerjob.types import MASTER
from traincrew.plan.chainerjob import events
from traincrew.plan.chainerjob.children import LABEL_SET
from traincrew.plan.chainerjob.edits import Edits
from traincrew.plan.chainerjob.grants import grant
from traincrew.plan.chainerjob.observed import ObservedJob
from traincrew.plan.chainerjob.status import document, status_with_counts
from traincrew.plan.chainerjob.writes import Writes
from traincrew.plan.shared import lifecycle
from traincrew.plan.shared.facts import master_progress
from traincrew.plan.shared.gangs.job import GangSize
from traincrew.plan.shared.lifecycle import Outcome, Progress, Status
from traincrew.plan.shared.masterjob import WATCH_LAG_SECONDS
from traincrew.plan.shared.model import ChildKey, Decision, Event, Observed, Plan
from traincrew.plan.shared.planner import JobPlanner
from traincrew.plan.shared.queueing import podsets
from traincrew.plan.shared.queueing.podsets import POD_INDEX, PodSet

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from traincrew.api.kinds.chainerjob.types import ChainerJobSpec
    from traincrew.api.meta import Problem
    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.shared import stall
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.views import ObservedPod

SYNCED = Event("Normal", "Synced", "ChainerJob synced successfully")


def plan(observed: Observed, now: datetime, options: Options) -> Decision:
    """Decide what a job needs next."""
    return _Planner(observed, now, options).plan()


class _Planner(JobPlanner[api.ChainerJobSpec, Status]):
    """Decides what one ChainerJob needs next."""

    definition = DEFINITION
    status_type = Status
    delegates_limits = True
    """The master's Job counts its retries and enforces the deadline."""

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        super().__init__(observed, now, options)
        self.current = ObservedJob(observed, self.stored, now)
        self.writes = Writes(observed, self.owner, options)
        self._found_edits: Edits | None = None
        self._waiting_for: str | None = None
        self._master_state: tuple[str, str, str] | None = None

    # -- the kind -----------------------------------------------------------------------------

    def decode(self, spec: dict[str, Any]) -> ChainerJobSpec:
        return api.decode(spec)

    def problems(self, spec: ChainerJobSpec) -> list[Problem]:
        return problems(self.metadata, spec)

    @property
    def has_started(self) -> bool:
        return self.current.job is not None

    @property
    def is_training(self) -> bool:
        return self.current.started

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
        if self._found_edits is None:
            suspended = bool(self.policy(spec).suspend)
            self._found_edits = Edits(self.current, spec, suspended=suspended)
        return self._found_edits

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

    def at_end(self, plan: Plan, spec: ChainerJobSpec, outcome: Outcome) -> None:
        if "workersReady" in plan.status:
            # No worker is wanted any more. Said at once, since nothing changes a job at rest.
            plan.status = {**plan.status, "workersReady": "0/0"}
        if outcome.succeeded:
            plan.events += events.lost_workers(self.status_with_counts(spec))

    def can_stall(self, spec: ChainerJobSpec, numbers: Status) -> bool:
        state = self._state_of_master(spec, numbers)
        return state is not None and state[0] == lifecycle.RUNNING

    def gang_size(self, spec: ChainerJobSpec) -> GangSize:
        # The master is not created before all workers are ready.
        workers = sum(each.replicas for each in spec.worker_sets.values())
        return GangSize(needed=max(1, workers), members=max(1, workers))

    def pod_sets(self, spec: ChainerJobSpec) -> list[PodSet]:
        workers = [
            PodSet(role=name, template=each.template, count=each.replicas, index_label=POD_INDEX)
            for name, each in sorted(spec.worker_sets.items())
        ]
        return [PodSet(role=MASTER, template=spec.master.template, count=1), *workers]

    def pod_set_of(self, labels: Mapping[str, str]) -> str:
        return podsets.name_of(labels.get(LABEL_SET) or MASTER)

    def pod_templates(self, spec: ChainerJobSpec) -> list[dict[str, Any]]:
        return [spec.master.template, *(each.template for each in spec.worker_sets.values())]

    def write(self, plan: Plan, spec: ChainerJobSpec, numbers: Status) -> list[float]:  # noqa: ARG002
        edits = self._edits(spec)
        self.releasing |= edits.releasing
        found_pods = grant(self.observed, spec)
        # The status of a StatefulSet may be known before its pods are.
        start = self._waiting_for is None and found_pods.complete
        plan.stages = self.writes.run(spec, edits, found_pods, start_master=start)
        if not start:
            plan.coming = self.writes.coming(spec)
        plan.delete = {
            **self.writes.removed_sets(spec, edits),
            **self.writes.outdated_master(spec),
        }
        plan.delete_pods(self.current.stalled_masters())
        plan.missing = self._missing(spec)
        return []

    def hold(self, plan: Plan) -> None:
        plan.stages = self.writes.narrow()

    def waits(self, spec: ChainerJobSpec, numbers: Status) -> list[float]:  # noqa: ARG002
        return [WATCH_LAG_SECONDS] if self.current.waiting_for_pods else []

    def in_reading_order(self, spec: ChainerJobSpec) -> list[ObservedPod]:  # noqa: ARG002
        # mpiexec in the master passes on what the workers write.
        return [*self.current.master_pods, *self.current.worker_pods]

    def retry(self, spec: ChainerJobSpec, numbers: Status, stalled: stall.Stalled) -> str:  # noqa: ARG002
        return self.current.record_stall(numbers)

    def _missing(self, spec: ChainerJobSpec) -> dict[str, dict[str, Any]]:
        missing = {
            name: self.writes.worker_pod(spec, set_name, name)
            for name, set_name in self.current.missing_workers(spec).items()
        }
        if self.current.is_master_missing:
            missing[self.current.names.master] = self.writes.master_pod(spec)
        return missing

    def _state_of_master(
        self, spec: ChainerJobSpec, numbers: Status
    ) -> tuple[str, str, str] | None:
        """Return the true condition (or ""), reason and message; None before its start.

        Cached, because workers are compared with their records.
        """
        if self._master_state is None and self.current.started:
            self._master_state = self.current.master_state(spec, numbers)
        return self._master_state

    def progress(self, spec: ChainerJobSpec, numbers: Status, found: list[Problem]) -> Progress:
        self._waiting_for = self.current.waiting_for(spec)
        started = self.current.started
        return master_progress(
            self._state_of_master(spec, numbers),
            problem=self.sync_problem(found),
            waiting_for=self._waiting_for,
            started_at=self.stored.start_time or (self.current.job_start() if started else None),
        )
