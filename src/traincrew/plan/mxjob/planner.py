"""The decisions for an MxJob, where they differ from other kinds.

Job missing             -> create it; the scheduler's Service first
replica killed          -> count it, then delete all Jobs, and create them again when the pods ended
replica failed          -> Failed
scheduler, workers done -> Succeeded, when the servers have ended as well

A parameter server waits forever for a role that has died, so a single replica is never restarted in
its place, except for workers with ``recoverWorkers``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api.kinds.mxjob import types as api
from traincrew.api.kinds.mxjob.definition import DEFINITION
from traincrew.api.kinds.mxjob.rules import problems
from traincrew.api.kinds.mxjob.types import MxJobSpec
from traincrew.api.meta import Problem, parse_time
from traincrew.api.reasons import Cause
from traincrew.plan.mxjob import events, status
from traincrew.plan.mxjob.children import LABEL_INDEX, LABEL_RUNTIME_ID, LABEL_TYPE
from traincrew.plan.mxjob.observed import ObservedJob, State
from traincrew.plan.mxjob.progress import progress
from traincrew.plan.mxjob.restarts import (
    LEAVING_SECONDS,
    Restart,
    after_stall,
    decide,
    seconds_to_leave,
)
from traincrew.plan.mxjob.status import MxJobStatus
from traincrew.plan.mxjob.writes import Writes, counted_pods, stop
from traincrew.plan.shared import lifecycle
from traincrew.plan.shared.facts import Attempts
from traincrew.plan.shared.gangs.job import GangSize
from traincrew.plan.shared.lifecycle import Outcome, Progress
from traincrew.plan.shared.planner import JobPlanner
from traincrew.plan.shared.queueing import podsets
from traincrew.plan.shared.queueing.podsets import PodSet

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.mxjob.children import Place
    from traincrew.plan.shared import stall
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.model import ChildKey, Decision, Event, Observed, Plan
    from traincrew.plan.shared.views import ObservedPod

SERVERS_END = timedelta(seconds=10)
"""How long servers may take to end after the last worker; they do so within a second."""


def plan(observed: Observed, now: datetime, options: Options) -> Decision:
    """Decide what a job needs next."""
    return _Planner(observed, now, options).plan()


class _Planner(JobPlanner[MxJobSpec, MxJobStatus]):
    """Decides what one MxJob needs next."""

    definition = DEFINITION
    status_type = MxJobStatus

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        super().__init__(observed, now, options)
        self._current: ObservedJob | None = None
        self._renamed = False
        self._after_stall: Restart | None = None
        self._report: list[Event] = []

    # -- the kind -----------------------------------------------------------------------------

    def read(self, stored: Mapping[str, Any]) -> MxJobStatus:
        return status.read(stored)

    def document(self, status_: MxJobStatus) -> dict[str, Any]:
        return status.document(status_, self.observed.pods)

    def decode(self, spec: dict[str, Any]) -> MxJobSpec:
        return api.decode(spec)

    def problems(self, spec: MxJobSpec) -> list[Problem]:
        found = problems(self.metadata, spec)
        stored = self.stored.runtime_id
        self._renamed = bool(stored) and spec.identifier not in {None, stored}
        if self._renamed:
            text = (
                f"it is {spec.identifier}, but the job has children with {stored} in their names;"
                f" write {stored} again, or remove the field"
            )
            found.append(Problem("spec.RuntimeId", text))
        return found

    def spec_patch(self, spec: MxJobSpec) -> dict[str, Any]:
        # Users' scripts derive the names of children from it. It is written once: whoever replaces
        # the job by a manifest without it may do so again and again, and nothing changes.
        if spec.identifier or self.stored.runtime_id:
            return {}
        return {"spec": {"RuntimeId": self._runtime_id(spec)}}

    @property
    def has_started(self) -> bool:
        # With a RuntimeId of its own there are children; the spec may still be repaired.
        return self._renamed or self.stored.condition(lifecycle.RUNNING) is not None

    def _runtime_id(self, spec: MxJobSpec) -> str:
        """Return the RuntimeId; it stays once there are children with it, whatever the spec has."""
        stored = self.stored.runtime_id
        return stored or spec.identifier or api.generated_id(self.metadata.uid)

    def _attempt(self, place: Place) -> str:
        """Return the current attempt of a replica, as in the label of its Job."""
        recovered = self.stored.recoveries.get(str(place.number), 0)
        if place.type == api.WORKER and recovered:
            return f"{self.stored.attempt}-{recovered}"
        return str(self.stored.attempt)

    def current(self, spec: MxJobSpec) -> ObservedJob:
        """Return the observed state."""
        if self._current is None:
            self._current = ObservedJob(self.observed, spec, self._runtime_id(spec), self._attempt)
        return self._current

    def _writes(self, spec: MxJobSpec) -> Writes:
        return Writes(
            self.observed,
            self.owner,
            spec,
            self._runtime_id(spec),
            current=self.current(spec),
            attempt=self._attempt,
            accelerators=self.options.accelerators,
            endpoint=self.options.endpoint,
        )

    def status_with_counts(self, spec: MxJobSpec | None, *, wanted: bool = True) -> MxJobStatus:
        if spec is None:
            return self._without_spec()
        current = self.current(spec)
        ready = sum(pod.ready for pod in self.observed.pods)
        total = len(current.replicas) if wanted else 0
        return msgspec.structs.replace(
            self.stored,
            types=status.of_types(current),
            runtime_id=self._runtime_id(spec),
            ps_root_port=spec.port if spec.distributed else 0,
            workers_ready=f"{min(ready, total)}/{total}",
        )

    def _without_spec(self) -> MxJobStatus:
        """Return the status with the counts of the pods that are left of a finished job."""
        if not self.stored.finished:
            return msgspec.structs.replace(self.stored)
        ready = sum(pod.ready for pod in self.observed.pods)
        count, slash, total = self.stored.workers_ready.partition("/")
        left = f"{min(ready, int(count))}/{total}" if slash else ""
        types = status.at_the_end(self.stored.types, self.observed.pods)
        return msgspec.structs.replace(self.stored, types=types, workers_ready=left)

    def at_end(self, plan: Plan, spec: MxJobSpec, outcome: Outcome) -> None:  # noqa: ARG002
        ended = self.read(plan.status)
        ended.types = status.at_the_end(ended.types, self.observed.pods)
        plan.status = self.document(ended)

    def needs_confirmation(self, spec: MxJobSpec) -> bool:
        """Return whether replicas are missing that had been there, or old pods may be left.

        Or a Job has failed, and how its pod ended is not known.
        """
        if self.policy(spec).suspend:
            return False
        if self.current(spec).without_cause:
            return True
        if not self.current(spec).of(State.ABSENT):
            return False
        if self.stored.holds(lifecycle.RUNNING):
            return True
        return self.stored.attempt > 0 and not self._must_wait(spec)

    def unseen(self, spec: MxJobSpec) -> tuple[ChildKey, ...]:
        return tuple(replica.key for replica in self.current(spec).of(State.ABSENT))

    def clean_up(self, plan: Plan, policy: CommonPolicy) -> None:
        if not self.stored.finished or policy.clean_pod_policy == "None":
            return  # not before it is stored how the job ended
        plan.stages = stop(self.observed)
        if policy.clean_pod_policy == "All":
            plan.delete = counted_pods(self.observed)

    def suspend(self, plan: Plan, spec: MxJobSpec) -> None:
        if not self.stored.holds(lifecycle.SUSPENDED):
            self.releasing = True
            return
        plan.delete, plan.any_version = self._writes(spec).everything(), True

    def transitions(self, status_: MxJobStatus) -> list[Event]:
        return events.transitions(self.stored, status_)

    def events_on_spec_change(self, spec: MxJobSpec) -> list[Event]:
        return [
            *events.overridden_variables(self.owner, spec, self._runtime_id(spec)),
            *events.namesakes(self.owner.name, self.observed.namesakes),
        ]

    # -- the end ------------------------------------------------------------------------------

    def outcome(self, spec: MxJobSpec, found: list[Problem]) -> Outcome | None:
        if found:
            return None
        current = self.current(spec)
        if current.succeeded:
            return self._success(current)
        if (restart := self._restart(spec)) is not None and restart.cause is not None:
            return self.failure(restart.cause, restart.text)
        return None

    def attempts(self, spec: MxJobSpec, found: list[Problem]) -> Attempts:  # noqa: ARG002
        return Attempts()  # a restart counts itself: `restarts`

    def _success(self, current: ObservedJob) -> Outcome | None:
        if self._servers_wait(current) > 0:
            return None
        return Outcome(
            succeeded=True,
            reason=f"{api.KIND}Succeeded",
            message="The scheduler and all workers have succeeded."
            if len(current.replicas) > 1
            else "The worker has succeeded.",
        )

    def _servers_wait(self, current: ObservedJob) -> float:
        """Return the seconds that servers still have to end by themselves."""
        if not current.succeeded or not current.of(State.PENDING, State.RUNNING):
            return 0
        if not current.ended_at:
            return 0
        return (parse_time(current.ended_at) + SERVERS_END - self.now).total_seconds()

    def _restart(self, spec: MxJobSpec) -> Restart | None:
        return decide(
            self.current(spec),
            spec,
            self.stored,
            self.now,
            had_run=self.stored.holds(lifecycle.RUNNING) and self.observed.confirmed,
        )

    # -- progress -----------------------------------------------------------------------------

    def can_stall(self, spec: MxJobSpec, numbers: MxJobStatus) -> bool:  # noqa: ARG002
        return self.stored.holds(lifecycle.RUNNING) and self._restart(spec) is None

    def in_reading_order(self, spec: MxJobSpec) -> list[ObservedPod]:  # noqa: ARG002
        # Workers write more than the other roles.
        return sorted(
            self.observed.pods,
            key=lambda pod: pod.metadata.labels.get(LABEL_TYPE) != api.WORKER,
        )

    def retry(
        self,
        spec: MxJobSpec,
        numbers: MxJobStatus,  # noqa: ARG002
        stalled: stall.Stalled,
    ) -> Outcome | str:
        restart = after_stall(self.current(spec), spec, self.stored, stalled, self.now)
        if restart.cause is not None:
            return self.failure(restart.cause, restart.text)
        self._after_stall = restart
        return ""  # reported as any restart

    def _next_attempt(self, spec: MxJobSpec, found: list[Problem]) -> Restart | None:
        if found or self.stored.holds(lifecycle.SUSPENDED):
            return None
        return self._after_stall or self._restart(spec)

    def progress(self, spec: MxJobSpec, numbers: MxJobStatus, found: list[Problem]) -> Progress:
        restart = self._next_attempt(spec, found)
        resumed = self.stored.holds(lifecycle.SUSPENDED)
        if restart is not None:
            restart.apply(numbers, self.now)
        elif resumed:
            numbers.attempt += 1  # what is created now does not mix with what is left
            numbers.recoveries, numbers.recreate_after = {}, ""
        elif not self.current(spec).of(State.ABSENT, State.LEAVING, State.PENDING):
            numbers.recreate_after = ""  # until then the time to start counts from it
        # Jobs are deleted and created once that is stored.
        self.releasing = restart is not None or resumed
        self._report = [restart.event] if restart is not None else []
        current, problem = self.current(spec), self.sync_problem(found)
        return progress(
            self.observed, self.stored, current, self.now, restart=restart, problem=problem
        )

    def gang_size(self, spec: MxJobSpec) -> GangSize:
        total = sum(each.replicas for each in spec.replica_specs)
        return GangSize(needed=total, members=total)

    def pod_sets(self, spec: MxJobSpec) -> list[PodSet]:
        return [
            PodSet(
                role=each.mx_replica_type,
                template=each.template,
                count=each.replicas,
                index_label=LABEL_INDEX,
            )
            for each in spec.replica_specs
        ]

    def pod_set_of(self, labels: Mapping[str, str]) -> str:
        return podsets.name_of(labels.get(LABEL_TYPE, ""))

    def pod_templates(self, spec: MxJobSpec) -> list[dict[str, Any]]:
        return [each.template for each in spec.replica_specs]

    def write(self, plan: Plan, spec: MxJobSpec, numbers: MxJobStatus) -> list[float]:  # noqa: ARG002
        if self.releasing:
            return []
        writes = self._writes(spec)
        plan.delete, plan.grace_seconds = writes.leaving(), writes.grace_seconds
        plan.any_version = True  # an attempt that was ended never continues
        if (wait := self._must_wait(spec)) > 0:
            return [wait]
        plan.stages = writes.missing()
        plan.missing = writes.missing_pods()
        return []

    def waits(self, spec: MxJobSpec, numbers: MxJobStatus) -> list[float | None]:  # noqa: ARG002
        return [self._servers_wait(self.current(spec)) or None]

    def news(self, found: list[Problem]) -> list[Event]:  # noqa: ARG002
        return self._report

    def _must_wait(self, spec: MxJobSpec) -> float:
        """Return the seconds to wait at most for replicas of the previous attempt; 0 if none.

        Two attempts must not run at the same time: they would write the same checkpoints, and the
        Service could lead to the scheduler that ends. A pod that a lost node keeps is not waited
        for longer than its grace period.
        """
        if self.current(spec).of(State.LEAVING):
            return LEAVING_SECONDS
        waits = [self._seconds_to_recreate()]
        since = self.stored.last_restart_time or self.metadata.creation_timestamp
        waits += [
            seconds_to_leave(pod, since, self.now)
            for pod in self.observed.departing
            if pod.metadata.labels.get(LABEL_RUNTIME_ID) == self._runtime_id(spec)
        ]
        return max(waits)

    def _seconds_to_recreate(self) -> float:
        """Return the seconds until the back-off is over, and a worker alone would be taken back.

        A worker that the scheduler does not miss yet is not assigned a rank, and waits forever.
        """
        if not self.stored.recreate_after:
            return 0.0
        return max(0.0, (parse_time(self.stored.recreate_after) - self.now).total_seconds())

    def seconds_to_start(
        self, spec: MxJobSpec, numbers: MxJobStatus, progress: Progress
    ) -> float | None:
        # A restart begins the time anew, and a back-off is no part of it.
        if progress.running:
            return None
        since = max(numbers.last_restart_time, numbers.recreate_after)
        return self.time_left_to_start(spec.run_policy, since)

    def not_started_in_time(self, policy: CommonPolicy, progress: Progress) -> Outcome:
        seconds = policy.scheduling_policy.schedule_timeout_seconds
        text = f"Not all replicas were running within {seconds} s: {progress.message}"
        return self.failure(Cause.NOT_STARTED, text)


__all__ = ["plan"]
