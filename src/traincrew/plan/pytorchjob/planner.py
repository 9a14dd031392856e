"""The decisions for a PyTorchJob, where they differ from other kinds.

Service or pod missing  -> create it
pod of no place         -> scaled in: delete it, and then its Service
pod failed, retryable   -> count it, then delete it, so that it is recreated
pod failed for good     -> Failed
master succeeded        -> Succeeded, when the others have ended as well, or a moment later
no master               -> the same when all workers succeeded, or one of an elastic group
metrics in the policy   -> a HorizontalPodAutoscaler, unless the job is suspended
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api.kinds.pytorchjob import types as api
from traincrew.api.kinds.pytorchjob.definition import DEFINITION
from traincrew.api.kinds.pytorchjob.rules import problems
from traincrew.api.kinds.pytorchjob.types import WORKER, PyTorchJobSpec
from traincrew.api.reasons import Cause
from traincrew.plan.pytorchjob import children, events
from traincrew.plan.pytorchjob.observed import NAMED, ObservedJob
from traincrew.plan.pytorchjob.progress import progress
from traincrew.plan.pytorchjob.status import PyTorchJobStatus, document, status_with_counts
from traincrew.plan.shared import failing, lifecycle, podrecords, pods, runpolicy
from traincrew.plan.shared.facts import Attempts
from traincrew.plan.shared.gangs.job import GangSize
from traincrew.plan.shared.lifecycle import Outcome, Progress
from traincrew.plan.shared.model import (
    FINGERPRINT,
    ChildKey,
    Decision,
    Event,
    Observed,
    Plan,
    Write,
)
from traincrew.plan.shared.planner import JobPlanner
from traincrew.plan.shared.replicas.states import (
    ENDED,
    TO_RECREATE,
    State,
    ended_at,
    seconds_to_recreate,
)
from traincrew.plan.shared.writes import patch, stages

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.meta import Condition, Problem
    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.replicas.places import Place
    from traincrew.plan.shared.views import ObservedPod

OTHERS_END = timedelta(seconds=10)
"""How long the other pods may take to end after those that decide; ranks end within a second."""


def plan(observed: Observed, now: datetime, options: Options) -> Decision:
    """Decide what a job needs next."""
    return _Planner(observed, now, options).plan()


def _is_past_limit(failed: Condition) -> bool:
    """Return whether a job has failed because it was active too long, or failed too often."""
    cause = DEFINITION.reasons.cause(failed.reason, failed.message)
    return cause in {Cause.DEADLINE, Cause.BACKOFF_LIMIT}


class _Planner(JobPlanner[PyTorchJobSpec, PyTorchJobStatus]):
    """Decides what one PyTorchJob needs next."""

    definition = DEFINITION
    status_type = PyTorchJobStatus

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        super().__init__(observed, now, options)
        self._current: ObservedJob | None = None
        self._status: dict[bool, PyTorchJobStatus] = {}
        self._records = podrecords.read(self.stored.pod_records)

    # -- the kind -----------------------------------------------------------------------------

    def decode(self, spec: dict[str, Any]) -> PyTorchJobSpec:
        return api.decode(spec)

    def problems(self, spec: PyTorchJobSpec) -> list[Problem]:
        return problems(self.metadata, spec)

    @property
    def has_started(self) -> bool:
        return self.stored.condition(lifecycle.RUNNING) is not None

    @property
    def is_training(self) -> bool:
        return bool(self.observed.pods)

    # Cached: a reconcile needs both repeatedly, and a job may have thousands of workers.

    def current(self, spec: PyTorchJobSpec | None) -> ObservedJob:
        """Return the observed state."""
        if self._current is None:
            self._current = ObservedJob(self.observed, spec, self.now, self._records)
        return self._current

    def status_with_counts(
        self, spec: PyTorchJobSpec | None, *, wanted: bool = True
    ) -> PyTorchJobStatus:
        if (found := self._status.get(wanted)) is None:
            current, records = self.current(spec), self._records
            if self.observed.confirmed:
                records = podrecords.unrelease(records, self._released_and_present(current))
            found = status_with_counts(
                current, self.stored, records, self.owner.name, spec, wanted=wanted
            )
            self._status[wanted] = found
        return msgspec.structs.replace(found)

    def _released_and_present(self, current: ObservedJob) -> set[str]:
        """Return the desired places with a released pod that is not terminating.

        Either it has not been deleted yet, and is desired again; or the cache is stale.
        """
        return {
            place.key
            for place in current.places
            if (pod := current.pod(place)) is not None
            and pod.metadata.deletion_timestamp is None
            and podrecords.is_released(self._records, place.key, pod)
        }

    def needs_confirmation(self, spec: PyTorchJobSpec) -> bool:
        released = self._released_and_present(self.current(spec))
        return not self.policy(spec).suspend and bool(released)

    def document(self, status: PyTorchJobStatus) -> dict[str, Any]:
        return document(status, self.observed.job.status, self.now)

    def clean_up(self, plan: Plan, policy: CommonPolicy) -> None:
        failed = self.stored.condition(lifecycle.FAILED)
        if failed is not None and failed.is_true and _is_past_limit(failed):
            # training-operator deletes all pods then, before the policy for a finished job counts.
            policy = msgspec.structs.replace(policy, clean_pod_policy="All")
        super().clean_up(plan, policy)
        if self.stored.finished and policy.clean_pod_policy != "None":
            self._delete_services(plan, keep=set())

    def suspend(self, plan: Plan, spec: PyTorchJobSpec) -> None:
        for pod in self.observed.pods:
            self._delete_released(plan, pod)
        for name, view in self.current(spec).autoscalers.items():
            plan.delete_child(ChildKey(children.AUTOSCALER, name), view)
        self._delete_services(plan, keep=set())

    def transitions(self, status: PyTorchJobStatus) -> list[Event]:
        return events.transitions(self.stored, status)

    def events_on_spec_change(self, spec: PyTorchJobSpec) -> list[Event]:
        return events.replaced_policies(spec)

    # -- the end ------------------------------------------------------------------------------

    def outcome(self, spec: PyTorchJobSpec, found: list[Problem]) -> Outcome | None:
        if found:
            return None
        current = self.current(spec)
        if current.has_succeeded:
            if self._others_wait(current) > 0:
                return None
            return Outcome(
                succeeded=True,
                reason=events.SUCCEEDED,
                message=f"{self._title(spec)} is successfully completed."
                if spec.has_master
                else f"{self._title(spec)} successfully completed.",
            )
        failed = [place for place, state in current.states.items() if state is State.FAILED]
        return self._failed(current, spec, failed) if failed else None

    def _title(self, spec: PyTorchJobSpec) -> str:
        """Return the job as training-operator's messages name it."""
        name = self.owner.name
        return f"{api.KIND} {name if spec.has_master else f'{self.owner.namespace}/{name}'}"

    def _others_wait(self, current: ObservedJob) -> float:
        """Return the seconds that the other pods still have to end by themselves."""
        if State.RUNNING not in current.states.values():
            return 0
        ends = [
            ended_at(pod, NAMED)
            for place, state in current.deciding.items()
            if state is State.SUCCEEDED and (pod := current.pod(place)) is not None
        ]
        last = max((end for end in ends if end is not None), default=None)
        return (last + OTHERS_END - self.now).total_seconds() if last is not None else 0

    def _failed(self, current: ObservedJob, spec: PyTorchJobSpec, failed: list[Place]) -> Outcome:
        lost = [(place, pod) for place in failed if (pod := current.pod(place)) is not None]
        lost.sort(key=lambda each: failing.order(pods.ended_at(each[1], NAMED), *each[0]))
        kind = lost[0][0].type
        count = sum(place.type == kind for place in failed)
        text = f"{api.KIND} {self.owner.name} is failed because {count} {kind} replica(s) failed."
        if spec.pytorch_replica_specs[kind].policy == "ExitCode":
            text = f'job "{self.owner.name}" is failing because "{kind}" replica(s) failed.'
        why = pods.first_few(pods.failures((pod for _, pod in lost), NAMED))
        return self.failure(Cause.PROGRAM, f"{text} {why}")

    def attempts(self, spec: PyTorchJobSpec, found: list[Problem]) -> Attempts:
        if found:
            return Attempts()
        return Attempts(
            limit=self.policy(spec).backoff_limit,
            failures=self.status_with_counts(spec).failures,
            restarts=self.current(spec).restarts_in_place(),
            message=runpolicy.backoff_limit_text(self.owner.name),
        )

    def deadline_text(self, policy: CommonPolicy) -> str:  # noqa: ARG002
        return runpolicy.deadline_text(self.owner.name)

    def at_end(self, plan: Plan, spec: PyTorchJobSpec, outcome: Outcome) -> None:  # noqa: ARG002
        exits = events.exits(self.current(spec), self.owner.namespace, self._records)
        plan.events = [*exits, *plan.events]

    def news(self, found: list[Problem]) -> list[Event]:  # noqa: ARG002
        assert self._current is not None
        return events.exits(self._current, self.owner.namespace, self._records)

    # -- progress -----------------------------------------------------------------------------

    def can_stall(self, spec: PyTorchJobSpec, numbers: PyTorchJobStatus) -> bool:  # noqa: ARG002
        return State.RUNNING in self.current(spec).deciding.values()

    def seconds_to_start(
        self,
        spec: PyTorchJobSpec,
        numbers: PyTorchJobStatus,  # noqa: ARG002
        progress: Progress,
    ) -> float | None:
        if progress.running or runpolicy.has_run(self.stored):
            return None
        return self.time_left_to_start(self.policy(spec))

    def waits(self, spec: PyTorchJobSpec, numbers: PyTorchJobStatus) -> list[float | None]:  # noqa: ARG002
        current = self.current(spec)
        return [self._others_wait(current) or None] if current.has_succeeded else []

    def gang_size(self, spec: PyTorchJobSpec) -> GangSize:
        needed, worker = spec.total, spec.pytorch_replica_specs.get(WORKER)
        if spec.elastic_policy is not None and worker is not None:
            needed += spec.limits[0] - worker.count
        members = sum(state not in ENDED for state in self.current(spec).states.values())
        return GangSize(needed=needed, members=members)

    def trains(self, spec: PyTorchJobSpec) -> bool:
        return State.RUNNING in self.current(spec).deciding.values()

    def pod_templates(self, spec: PyTorchJobSpec) -> list[dict[str, Any]]:
        return [each.template for each in spec.pytorch_replica_specs.values()]

    def write(self, plan: Plan, spec: PyTorchJobSpec, numbers: PyTorchJobStatus) -> list[float]:  # noqa: ARG002
        current = self.current(spec)
        services = [
            Write(create=children.service(self.owner, spec, place))
            for name, place in current.names.items()
            if name not in current.services
        ]
        missing = [
            Write(create=children.pod(self.owner, spec, place, self.options.endpoint))
            for name, place in current.names.items()
            if name not in current.pods
        ]
        plan.stages = stages(services, missing, self._autoscaler(plan, spec, current))
        return self._delete_unwanted(plan, current)

    def _autoscaler(
        self, plan: Plan, spec: PyTorchJobSpec, current: ObservedJob
    ) -> list[Write | None]:
        """Return the write of the autoscaler, if any; delete one that is not wanted."""
        wanted = children.autoscaler(self.owner, spec)
        for name, view in current.autoscalers.items():
            key = ChildKey(children.AUTOSCALER, name)
            if wanted is None:
                plan.delete_child(key, view)
                continue
            mark = wanted["metadata"]["annotations"][FINGERPRINT]
            if view.metadata.annotations.get(FINGERPRINT) == mark:
                return []
            values = {("spec",): wanted["spec"], ("metadata", "annotations", FINGERPRINT): mark}
            return [patch(key, view, values)]
        return [Write(create=wanted)] if wanted is not None else []

    def _delete_unwanted(self, plan: Plan, current: ObservedJob) -> list[float]:
        """Delete what is not desired, or to be recreated; return the seconds to wait for more."""
        waits = []
        for pod in current.pods.values():
            if pod.metadata.name not in current.names:
                self._delete_released(plan, pod)
        self._delete_services(plan, keep=set(current.names))
        for place, state in current.states.items():
            pod_there, record = current.pod(place), self._records.get(place.key)
            if pod_there is None or state not in TO_RECREATE or record is None:
                continue
            if (wait := seconds_to_recreate(pod_there, record, state, NAMED, self.now)) > 0:
                waits.append(wait)
            elif record.failed and podrecords.is_of(record, pod_there):
                plan.delete_pods([pod_there])
        return waits

    def _delete_released(self, plan: Plan, pod: ObservedPod) -> None:
        """Delete a pod that is not desired, once it is stored as released."""
        assert self._current is not None
        if podrecords.is_released(self._records, self._current.key_of(pod), pod):
            plan.delete_pods([pod])
        elif pod.metadata.deletion_timestamp is None:
            self.releasing = True

    def _delete_services(self, plan: Plan, keep: set[str]) -> None:
        """Delete the Services of pods that no longer exist; until then their names are in use."""
        kept = keep | {pod.metadata.name for pod in self.observed.pods}
        for key, view in self.observed.children.items():
            if key.kind == "Service" and key.name not in kept:
                plan.delete_child(key, view)

    def progress(
        self, spec: PyTorchJobSpec, numbers: PyTorchJobStatus, found: list[Problem]
    ) -> Progress:
        return progress(
            self.observed,
            self.stored,
            self.current(spec),
            self.now,
            records=podrecords.read(numbers.pod_records),
            problem=self.sync_problem(found),
        )


__all__ = ["plan"]
