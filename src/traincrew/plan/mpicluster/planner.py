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

import msgspec

from traincrew.api.kinds.mpicluster import types as api
from traincrew.api.kinds.mpicluster.definition import DEFINITION
from traincrew.api.kinds.mpicluster.rules import problems
from traincrew.api.kinds.mpicluster.types import WORKER, MPIClusterSpec
from traincrew.api.meta import format_time, parse_time
from traincrew.api.reasons import Cause
from traincrew.api.runpolicy import RunPolicy
from traincrew.plan.mpicluster import attempts, counts, events, keys, status
from traincrew.plan.mpicluster.observed import MASTER_RESTARTS, ObservedCluster, failure_text
from traincrew.plan.mpicluster.status import MPIClusterStatus
from traincrew.plan.mpicluster.writes import Writes, wants_all_workers
from traincrew.plan.shared import lifecycle, master, podrecords, runpolicy, stall
from traincrew.plan.shared.lifecycle import Outcome, Progress
from traincrew.plan.shared.model import ChildKey, Event, Observed, Plan
from traincrew.plan.shared.planner import RESOURCE_EXISTS, RESOURCE_EXISTS_RETRY_SECONDS, JobPlanner

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.meta import Problem
    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.shared.kind import Options

MIN_RECREATE_AGE = timedelta(seconds=10)
"""Minimum age of a master that has ended before it is created again, so that a program that ends at
once does not keep the whole cluster busy."""


def plan(observed: Observed, now: datetime, options: Options) -> Plan:
    """Decide what a cluster needs next."""
    return _Planner(observed, now, options).plan()


class _Planner(JobPlanner[MPIClusterSpec, MPIClusterStatus]):
    """Decides what one MPICluster needs next."""

    definition = DEFINITION
    status_type = MPIClusterStatus
    suspend_field = "spec.runPolicy.suspend"
    default_policy = RunPolicy()

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        super().__init__(observed, now, options)
        self._spec: MPIClusterSpec | None = None
        self._current: ObservedCluster | None = None

    # -- the kind -----------------------------------------------------------------------------

    def decode(self, spec: dict[str, Any]) -> MPIClusterSpec:
        self._spec = api.decode(spec)
        return self._spec

    def policy(self, spec: MPIClusterSpec) -> RunPolicy:
        return spec.run_policy

    def problems(self, spec: MPIClusterSpec) -> list[Problem]:
        return problems(self.metadata, spec)

    def defaults(self, spec: MPIClusterSpec) -> dict[str, Any]:  # noqa: ARG002 - all in the schema
        return {}

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
        if self.stored.holds(lifecycle.SUSPENDED):
            return None
        pod = self.current.master
        if spec.one_shot is not None and pod is not None and attempts.has_succeeded(pod):
            text = "The command has ended with exit code 0."
            return Outcome(succeeded=True, reason=f"{api.KIND}Succeeded", message=text)
        left = runpolicy.time_left(self.stored, self.policy(spec), self.now)
        if left is not None and left <= timedelta(0):
            seconds = self.policy(spec).active_deadline_seconds
            text = f"The cluster was active for {seconds} s (spec.runPolicy.activeDeadlineSeconds)."
            return self.failure(Cause.DEADLINE, text)
        return self._too_many_failures(spec)

    def _too_many_failures(self, spec: MPIClusterSpec) -> Outcome | None:
        record = self.current.records.get(attempts.PLACE)
        new = attempts.count(record, self.current.master)[1] if spec.one_shot is not None else 0
        count, limit = self.stored.failures + new, spec.backoff_limit
        if spec.one_shot is None or count <= limit:
            return None
        times = "once" if count == 1 else f"{count} times"
        text = f"The command has failed {times} (spec.runPolicy.backoffLimit: {limit})"
        if self.current.is_stalled:
            told = lifecycle.reported_stall(self.stored)
            return self.failure(Cause.NO_PROGRESS, f"{told}; {text}")
        pod = self.current.master
        if pod is not None and (failure := failure_text(spec, pod)):
            text = f"{text}; last failure: {failure}"
        return self.failure(Cause.BACKOFF_LIMIT, text)

    def plan_end(self, spec: MPIClusterSpec, outcome: Outcome) -> Plan:
        plan, pod = super().plan_end(spec, outcome), self.current.master
        if spec.one_shot is not None and pod is not None:
            ended = attempts.end(pod) if outcome.succeeded else attempts.last_failure(pod)
            if ended is not None:
                plan.status["exitCode"] = ended.exit_code
        return plan

    # -- progress -----------------------------------------------------------------------------

    def plan_active(self, spec: MPIClusterSpec, found: list[Problem]) -> Plan:
        current, numbers = self.current, self.status_with_counts(spec)
        waiting_for = current.waiting_for()
        progress = self._progress(numbers, waiting_for, found)
        limit = spec.run_policy.scheduling_policy
        left = None if current.started else self.time_left_to_start(limit)
        if left is not None:
            if left <= 0:
                return self.plan_end(spec, self.not_started_in_time(limit, progress))
            if (refusal := self.permanent_refusal()) is not None:
                return self.plan_end(spec, refusal)
        verdict = None
        if progress.running and not found and spec.one_shot is not None:
            verdict = self._assess(spec)
        if (needed := self.knowledge_for(verdict)) is not None:
            return needed
        if isinstance(verdict, stall.Stalled):
            numbers.failures += 1
            if numbers.failures > spec.backoff_limit:
                text = f"{verdict.message} (spec.runPolicy.backoffLimit: {spec.backoff_limit})"
                failed = self.failure(Cause.NO_PROGRESS, text)
                return self._end_of_stalled(spec, failed, numbers)
            progress = self._restart(numbers, progress, verdict)
        waits = [left, verdict.seconds if isinstance(verdict, stall.Wait) else None]
        waits.append(current.seconds_to_silence())
        if numbers.failures > self.stored.failures:
            waits.append(0.0)  # the next plan tells whether the command runs again
        plan = Plan()
        if not found and not self.observed.leftovers:
            start = waiting_for is None or not wants_all_workers(spec, started=current.started)
            waits.append(self._write(plan, spec, numbers, start=start))
        else:
            plan.stages = self.writes.narrow()
        after = self.advance(numbers, progress=progress)
        plan.status = self.document(after)
        plan.events = self.transitions(after) + self.sync_events(spec, after, progress)
        if isinstance(verdict, stall.Stalled) and self.stored.holds(lifecycle.RESTARTING):
            # There is no transition that reports it.
            plan.events.append(Event("Warning", stall.NO_PROGRESS, progress.message))
        time_left = runpolicy.time_left(after, self.policy(spec), self.now)
        waits.append(time_left.total_seconds() if time_left is not None else None)
        if progress.sync_reason == RESOURCE_EXISTS:
            waits.append(RESOURCE_EXISTS_RETRY_SECONDS)
        plan.requeue_after = min((wait for wait in waits if wait is not None), default=None)
        return self.complete(plan)

    def _write(
        self, plan: Plan, spec: MPIClusterSpec, numbers: MPIClusterStatus, *, start: bool
    ) -> float | None:
        """Add the writes to a plan; return the seconds until more follow."""
        found = keys.keys(self.current, spec, self.owner, self.now)
        held = self._holds_template(spec)
        self.releasing |= held or found.urgent
        plan.stages = self.writes.run(spec, found, held=held, start=start)
        # If a write is refused, another plan is made that knows of it.
        if keys.secret_key(self.current) not in self.observed.refusals:
            found.stored_in(numbers)
        if not start:
            plan.coming = self.writes.coming(spec, found.secret)
        plan.delete = self.writes.unwanted(spec)
        if (name := self.current.missing_worker()) is not None:
            plan.missing = {name: self.writes.worker_pod(spec, found.secret, name)}
        waits = [found.seconds, self._delete_ended_master(plan, spec)]
        return min((wait for wait in waits if wait is not None), default=None)

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

    def progress_deadline(self, spec: MPIClusterSpec) -> int | None:
        # An interactive master waits for people.
        return super().progress_deadline(spec) if spec.one_shot is not None else None

    def _assess(self, spec: MPIClusterSpec) -> stall.Verdict | None:
        # mpiexec in the master passes on what the workers write.
        pods = [self.current.master, *self.current.workers.values()]
        in_order = [pod for pod in pods if pod is not None]
        return stall.assess(self.observed, spec.run_policy, self.now, in_order)

    def _restart(
        self, numbers: MPIClusterStatus, progress: Progress, stalled: stall.Stalled
    ) -> Progress:
        """Record that the master is ended, and how that is reported."""
        records = podrecords.stall(podrecords.read(numbers.pod_records), {attempts.PLACE})
        numbers.pod_records = podrecords.texts(records)
        self.releasing = True
        return msgspec.structs.replace(
            progress,
            reason=stall.NO_PROGRESS,
            message=f"{stalled.message}; {MASTER_RESTARTS}",
            running=False,
            restarting=True,
        )

    def _end_of_stalled(
        self, spec: MPIClusterSpec, outcome: Outcome, numbers: MPIClusterStatus
    ) -> Plan:
        plan = self.plan_end(spec, outcome)
        plan.status["failures"] = numbers.failures
        return plan

    def _progress(
        self, numbers: MPIClusterStatus, waiting_for: str | None, found: list[Problem]
    ) -> Progress:
        return master.progress(
            self.current.progress(numbers.failures) if self.current.started else None,
            problem=self.sync_problem(found),
            waiting_for=waiting_for,
            started_at=self.stored.start_time or format_time(self.now),
        )


__all__ = ["plan"]
