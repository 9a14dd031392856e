"""The decisions for an MPICluster, where they differ from other kinds.

workers not ready    -> wait for them, up to scheduleTimeoutSeconds
workers ready        -> write the hostfile, then create the master
worker comes or goes -> write the hostfile, then touch the master so that its node reads it
command failed       -> the kubelet runs it again in its pod, up to the back-off limit
command ended with 0 -> Succeeded; scale the workers to zero
master lost          -> create it again; that is no failure
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.mpicluster import types as api
from traincrew.api.kinds.mpicluster.definition import DEFINITION
from traincrew.api.kinds.mpicluster.rules import problems
from traincrew.api.kinds.mpicluster.types import MASTER, WORKER, MPIClusterSpec
from traincrew.api.meta import format_time, parse_time
from traincrew.api.reasons import Cause
from traincrew.plan.mpicluster import attempts, counts, events, keys, status
from traincrew.plan.mpicluster.observed import MASTER_RESTARTS, ObservedCluster, failure_text
from traincrew.plan.mpicluster.status import MPIClusterStatus
from traincrew.plan.mpicluster.writes import Writes, wants_all_workers
from traincrew.plan.shared import lifecycle, podrecords, runpolicy
from traincrew.plan.shared.facts import Attempts, master_progress
from traincrew.plan.shared.gangs.job import GangSize
from traincrew.plan.shared.lifecycle import Outcome, Progress
from traincrew.plan.shared.model import ChildKey, Decision, Event, Observed, Plan
from traincrew.plan.shared.planner import JobPlanner
from traincrew.plan.shared.queueing.podsets import POD_INDEX, PodSet

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.meta import Problem
    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.shared import stall
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.views import ObservedPod

MIN_RECREATE_AGE = timedelta(seconds=10)
"""Minimum age of a master that has ended before it is created again, so that a program that ends at
once does not keep the whole cluster busy."""


def plan(observed: Observed, now: datetime, options: Options) -> Decision:
    """Decide what a cluster needs next."""
    return _Planner(observed, now, options).plan()


class _Planner(JobPlanner[MPIClusterSpec, MPIClusterStatus]):
    """Decides what one MPICluster needs next."""

    definition = DEFINITION
    status_type = MPIClusterStatus

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        super().__init__(observed, now, options)
        self._spec: MPIClusterSpec | None = None
        self._current: ObservedCluster | None = None

    # -- the kind -----------------------------------------------------------------------------

    def decode(self, spec: dict[str, Any]) -> MPIClusterSpec:
        self._spec = api.decode(spec)
        return self._spec

    def problems(self, spec: MPIClusterSpec) -> list[Problem]:
        return problems(self.metadata, spec)

    @property
    def current(self) -> ObservedCluster:
        """The observed state."""
        if self._current is None:
            self._current = ObservedCluster(self.observed, self.stored, self._spec, self.now)
        return self._current

    @property
    def writes(self) -> Writes:
        """The writes of the children."""
        return Writes(self.current, self.owner, self.options)

    @property
    def has_started(self) -> bool:
        return self.current.set is not None or self.current.started

    @property
    def is_training(self) -> bool:
        return self.current.started

    def status_with_counts(
        self, spec: MPIClusterSpec | None, *, wanted: bool = True
    ) -> MPIClusterStatus:
        current = self.current if spec is not None else self._without_spec()
        return counts.with_counts(
            current, wanted=wanted, replaced=wanted and spec is not None and self._replaces(spec)
        )

    def _without_spec(self) -> ObservedCluster:
        return ObservedCluster(self.observed, self.stored, None, self.now)

    def document(self, status_: MPIClusterStatus) -> dict[str, Any]:
        return status.document(status_)

    def needs_confirmation(self, spec: MPIClusterSpec) -> bool:
        return not self.policy(spec).suspend and bool(self.current.staying())

    def transitions(self, status_: MPIClusterStatus) -> list[Event]:
        return events.transitions(self.stored, status_)

    def events_on_spec_change(self, spec: MPIClusterSpec) -> list[Event]:
        return events.on_spec_change(self.current, spec)

    def suspend(self, plan: Plan, spec: MPIClusterSpec) -> None:  # noqa: ARG002
        if not self.stored.holds(lifecycle.SUSPENDED):
            return  # first it is stored that these pods are ended by us
        plan.stages = self.writes.revoke() + self.writes.scale_to_zero()
        plan.delete = self._deleted_master()

    def clean_up(self, plan: Plan, policy: CommonPolicy) -> None:
        if not self.is_at_rest:
            plan.stages += self.writes.revoke()
        if not self.stored.finished:
            return  # not before it is stored how the cluster ended
        if policy.clean_pod_policy == "All" or self.current.is_master_unscheduled:
            plan.delete = self._deleted_master()  # without a node, no deadline would end it
        else:
            plan.stages += self.writes.stop_master()
        one_shot = self._spec.one_shot if self._spec is not None else None
        stay = one_shot is not None and not one_shot.scale_down_workers
        if policy.clean_pod_policy != "None" and not stay:
            plan.stages += self.writes.scale_to_zero()

    def _deleted_master(self) -> dict[ChildKey, str]:
        pod = self.current.master
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return {}
        return {ChildKey("Pod", pod.metadata.name): pod.metadata.uid}

    # -- the end ------------------------------------------------------------------------------

    def outcome(self, spec: MPIClusterSpec, found: list[Problem]) -> Outcome | None:  # noqa: ARG002
        pod = self.current.master
        if spec.one_shot is not None and pod is not None and attempts.has_succeeded(pod):
            text = "The command has ended with exit code 0."
            return Outcome(succeeded=True, reason=f"{api.KIND}Succeeded", message=text)
        return None

    def attempts(self, spec: MPIClusterSpec, found: list[Problem]) -> Attempts:  # noqa: ARG002
        if spec.one_shot is None:
            return Attempts()
        pod, limit = self.current.master, spec.backoff_limit
        new = attempts.count(self.current.records.get(attempts.PLACE), pod)[1]
        count = self.stored.failures + new
        times = "once" if count == 1 else f"{count} times"
        text = f"The command has failed {times} (spec.runPolicy.backoffLimit: {limit})"
        stalled = self.current.is_stalled
        if not stalled and pod is not None and (failure := failure_text(spec, pod)):
            text = f"{text}; last failure: {failure}"
        return Attempts(limit=limit, failures=count, message=text, stalled=stalled)

    def at_end(self, plan: Plan, spec: MPIClusterSpec, outcome: Outcome) -> None:
        pod = self.current.master
        if spec.one_shot is not None and pod is not None:
            ended = attempts.end(pod) if outcome.succeeded else attempts.last_failure(pod)
            if ended is not None:
                plan.status["exitCode"] = ended.exit_code

    # -- progress -----------------------------------------------------------------------------

    def progress(
        self,
        spec: MPIClusterSpec,  # noqa: ARG002
        numbers: MPIClusterStatus,
        found: list[Problem],
    ) -> Progress:
        return master_progress(
            self.current.progress(numbers.failures) if self.current.started else None,
            problem=self.sync_problem(found),
            waiting_for=self.current.waiting_for(),
            started_at=self.stored.start_time or format_time(self.now),
        )

    def progress_deadline(self, spec: MPIClusterSpec) -> int | None:
        # An interactive master waits for people.
        return super().progress_deadline(spec) if spec.one_shot is not None else None

    def can_stall(self, spec: MPIClusterSpec, numbers: MPIClusterStatus) -> bool:  # noqa: ARG002
        current = self.current
        return current.started and current.progress(numbers.failures)[0] == lifecycle.RUNNING

    def in_reading_order(self, spec: MPIClusterSpec) -> list[ObservedPod]:  # noqa: ARG002
        # mpiexec in the master passes on what the workers write.
        pods = [self.current.master, *self.current.workers.values()]
        return [pod for pod in pods if pod is not None]

    def retry(
        self, spec: MPIClusterSpec, numbers: MPIClusterStatus, stalled: stall.Stalled
    ) -> Outcome | str:
        numbers.failures += 1
        if runpolicy.past_backoff_limit(spec.backoff_limit, failures=numbers.failures):
            text = f"{stalled.message} (spec.runPolicy.backoffLimit: {spec.backoff_limit})"
            return self.failure(Cause.NO_PROGRESS, text)
        records = podrecords.stall(podrecords.read(numbers.pod_records), {attempts.PLACE})
        numbers.pod_records = podrecords.texts(records)
        return MASTER_RESTARTS

    def waits(
        self,
        spec: MPIClusterSpec,  # noqa: ARG002
        numbers: MPIClusterStatus,
    ) -> list[float | None]:
        counted = numbers.failures > self.stored.failures
        # The next plan tells whether the command runs again.
        return [self.current.seconds_to_silence(), 0.0 if counted else None]

    def hold(self, plan: Plan) -> None:
        plan.stages = self.writes.narrow()

    def gang_size(self, spec: MPIClusterSpec) -> GangSize:  # noqa: ARG002
        # The master is not created before all workers are ready.
        workers = max(1, self.current.replicas)
        return GangSize(needed=workers, members=workers)

    def pod_sets(self, spec: MPIClusterSpec) -> list[PodSet]:
        workers = PodSet(
            role=WORKER,
            template=spec.workers.template,
            count=spec.workers.replicas,
            index_label=POD_INDEX,
        )
        master = PodSet(role=MASTER, template=spec.master.template, count=1)
        return [master, workers] if workers.count else [master]

    def pod_templates(self, spec: MPIClusterSpec) -> list[dict[str, Any]]:
        return [spec.master.template, spec.workers.template]

    def write(
        self, plan: Plan, spec: MPIClusterSpec, numbers: MPIClusterStatus
    ) -> list[float | None]:
        current = self.current
        start = current.waiting_for() is None or not wants_all_workers(
            spec, started=current.started
        )
        found = keys.keys(current, spec, self.owner, self.now)
        held = self._holds_template(spec)
        self.releasing |= held or found.urgent
        plan.stages = self.writes.run(spec, found, held=held, start=start)
        # If a write is refused, another plan is made that knows of it.
        if keys.secret_key(current) not in self.observed.refusals:
            found.stored_in(numbers)
        if not start:
            plan.coming = self.writes.coming(spec, found.secret)
        plan.delete = self.writes.unwanted(spec)
        if (name := current.missing_worker()) is not None:
            plan.missing = {name: self.writes.worker_pod(spec, found.secret, name)}
        return [found.seconds, self._delete_ended_master(plan, spec)]

    def _replaces(self, spec: MPIClusterSpec) -> bool:
        return self.current.replaces_template(keys.secret_name(self.current, spec))

    def _holds_template(self, spec: MPIClusterSpec) -> bool:
        """Return whether our replacement of the workers has to be stored first."""
        if not self._replaces(spec):
            return False
        return any(
            not podrecords.is_released(self.current.records, f"{WORKER}-{index}", pod)
            for index, pod in self.current.workers.items()
        )

    def _delete_ended_master(self, plan: Plan, spec: MPIClusterSpec) -> float | None:
        """Delete a master that has ended, or made no progress, so that it is created again."""
        current, pod = self.current, self.current.master
        if pod is None:
            return None
        if not (current.is_stalled or pod.finished):
            return None
        counted = current.is_stalled or attempts.is_counted(current.records, pod)
        if spec.one_shot is not None and not counted:
            return None  # only this pod shows the failure
        age = self.now - parse_time(pod.metadata.creation_timestamp)
        if age < MIN_RECREATE_AGE:
            return (MIN_RECREATE_AGE - age).total_seconds()
        plan.delete |= self._deleted_master()
        return None


__all__ = ["plan"]
