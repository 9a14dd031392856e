"""The decisions for a job of pods that each have a Service, where they differ from other kinds.

Service or pod missing  -> create it
pod of no place         -> scaled in: delete it, and then its Service
pod failed, retryable   -> count it, then delete it, so that it is recreated
pod failed for good     -> the kind decides if the job has failed

A kind says which pods it asks for, what is in them, and when their ends are that of the job.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import msgspec

from traincrew.api.reasons import Cause
from traincrew.plan.shared import failing, lifecycle, podrecords, pods, runpolicy
from traincrew.plan.shared.facts import Attempts, Spec
from traincrew.plan.shared.lifecycle import Outcome
from traincrew.plan.shared.model import Write
from traincrew.plan.shared.planner import JobPlanner
from traincrew.plan.shared.replicas import counts, reports
from traincrew.plan.shared.replicas.counts import AnyReplicasStatus
from traincrew.plan.shared.replicas.observed import ObservedReplicas
from traincrew.plan.shared.replicas.progress import progress
from traincrew.plan.shared.replicas.states import ENDED, TO_RECREATE, State, seconds_to_recreate
from traincrew.plan.shared.writes import stages

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.meta import Problem
    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.lifecycle import Progress
    from traincrew.plan.shared.model import Event, Observed, Plan
    from traincrew.plan.shared.replicas.places import Labels, Place, Replicas
    from traincrew.plan.shared.replicas.reports import Words

Current = TypeVar("Current", bound=ObservedReplicas)


class ReplicasPlanner(
    JobPlanner[Spec, AnyReplicasStatus], Generic[Spec, AnyReplicasStatus, Current]
):
    """Decides what one such job needs next.

    Attributes:
        words: How the kind words what all such kinds report.
        labels: The labels of its children.
        specs: Path of its replicas.
        counted: Types whose pods ``workersReady`` is about; by default all.
    """

    words: ClassVar[Words]
    labels: ClassVar[Labels]
    specs: ClassVar[str]
    counted: ClassVar[tuple[str, ...]] = ()

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        super().__init__(observed, now, options)
        self._current: Current | None = None
        self._status: dict[bool, AnyReplicasStatus] = {}
        self.records = podrecords.read(self.stored.pod_records)

    # -- the kind -----------------------------------------------------------------------------

    @abstractmethod
    def replicas(self, spec: Spec) -> dict[str, Replicas]:
        """Return the pods that the job asks for, by type."""

    @abstractmethod
    def observe(self, spec: Spec | None) -> Current:
        """Return the observed state."""

    @abstractmethod
    def service(self, spec: Spec, place: Place) -> dict[str, Any]:
        """Return the Service of a place."""

    @abstractmethod
    def pod(self, spec: Spec, place: Place) -> dict[str, Any]:
        """Return the pod of a place."""

    @property
    def has_started(self) -> bool:
        """Whether a pod that decides has run."""
        return self.stored.condition(lifecycle.RUNNING) is not None

    @property
    def is_training(self) -> bool:
        """Whether there are pods."""
        return bool(self.observed.pods)

    def pod_templates(self, spec: Spec) -> list[dict[str, Any]]:
        """Return the templates of all types."""
        return [each.template for each in self.replicas(spec).values()]

    # Cached: a reconcile needs both repeatedly, and a job may have thousands of pods.

    def current(self, spec: Spec | None) -> Current:
        """Return the observed state, always the same."""
        if self._current is None:
            self._current = self.observe(spec)
        return self._current

    def status_with_counts(self, spec: Spec | None, *, wanted: bool = True) -> AnyReplicasStatus:
        """Return the stored status with the counts of this reconcile."""
        if (found := self._status.get(wanted)) is None:
            found = self._status[wanted] = self._counted(spec, wanted=wanted)
        return msgspec.structs.replace(found)

    def _counted(self, spec: Spec | None, *, wanted: bool) -> AnyReplicasStatus:
        current, records = self.current(spec), self.records
        if self.observed.confirmed:
            records = podrecords.unrelease(records, current.released(records))
        types, total = set(self.stored.replica_statuses), None
        if spec is not None:
            sizes = {name: each.count for name, each in self.replicas(spec).items()}
            types, counted = set(sizes), self.counted or sizes
            total = sum(sizes.get(name, 0) for name in counted) if wanted else 0
        status, released = counts.with_counts(
            self.stored,
            current,
            records,
            {name: self.labels.of_type(self.owner.name, name) for name in types},
            total=total,
            counted=self.counted,
            wanted=wanted,
        )
        self.add_counts(status, spec, released, wanted=wanted)
        return status

    def add_counts(
        self, status: AnyReplicasStatus, spec: Spec | None, released: set[str], *, wanted: bool
    ) -> None:
        """Add to the status what only this kind counts.

        Args:
            status: The status with the counts of this reconcile.
            spec: The desired state; None if it no longer matters.
            released: Keys of places whose pods are marked as released for the first time.
            wanted: Whether the job should have pods at all.
        """

    def needs_confirmation(self, spec: Spec) -> bool:
        """Return whether desired pods seem to be released, which a cache may say that lags."""
        released = self.current(spec).released(self.records)
        return not self.policy(spec).suspend and bool(released)

    def document(self, status: AnyReplicasStatus) -> dict[str, Any]:
        """Return the whole status, with ``lastUpdateTime`` in its conditions."""
        return counts.document(status, self.observed.job.status, self.now)

    # -- the end ------------------------------------------------------------------------------

    def succeeded(self, message: str) -> Outcome:
        """Return the outcome of a job that has succeeded."""
        return Outcome(succeeded=True, reason=self.words.succeeded, message=message)

    @property
    def subject(self) -> str:
        """The kind and name of the job, for people."""
        return f"{self.definition.kind} {self.owner.name}"

    def failed(self, spec: Spec, failed: list[Place]) -> Outcome:
        """Return the outcome of a job whose pods in some places have failed for good."""
        current = self.current(spec)
        lost = [(place, pod) for place in failed if (pod := current.pod(place)) is not None]
        lost.sort(key=lambda each: failing.order(pods.ended_at(each[1], current.named), *each[0]))
        kind = lost[0][0].type
        count = sum(place.type == kind for place in failed)
        why = pods.first_few(pods.failures((pod for _, pod in lost), current.named))
        return self.failure(Cause.PROGRAM, f"{self.failed_text(spec, kind, count)} {why}")

    def failed_text(self, spec: Spec, kind: str, count: int) -> str:  # noqa: ARG002
        """Return what is said of a job that failed because pods of a type have."""
        name = f"{self.words.noun} {self.owner.name}"
        return f"{name} is failed because {count} {kind} replica(s) failed."

    def attempts(self, spec: Spec, found: list[Problem]) -> Attempts:
        """Return the failures of pods that were recreated, and the restarts in those there are."""
        if found:
            return Attempts()
        return Attempts(
            limit=self.policy(spec).backoff_limit,
            failures=self.status_with_counts(spec).failures,
            restarts=self.current(spec).restarts_in_place(),
            message=runpolicy.backoff_limit_text(self.owner.name),
        )

    def deadline_text(self, policy: CommonPolicy) -> str:  # noqa: ARG002
        """Return the message of kubeflow/common."""
        return runpolicy.deadline_text(self.owner.name)

    # -- events -------------------------------------------------------------------------------

    def transitions(self, status: AnyReplicasStatus) -> list[Event]:
        """Return the events of kubeflow/common for conditions that have changed."""
        return reports.transitions(self.stored, status, self.words)

    def events_on_spec_change(self, spec: Spec) -> list[Event]:
        """Warn about restart policies in templates, which are overridden."""
        return reports.replaced_policies(self.specs, self.replicas(spec), self.words.replaced)

    def at_end(self, plan: Plan, spec: Spec, outcome: Outcome) -> None:  # noqa: ARG002
        """Add the exit codes of pods that have failed."""
        self.current(spec)
        plan.events = [*self._exits(), *plan.events]

    def news(self, found: list[Problem]) -> list[Event]:  # noqa: ARG002
        """Return events with the exit codes of pods that have failed."""
        return self._exits()

    def _exits(self) -> list[Event]:
        assert self._current is not None
        return reports.exits(self._current, self.owner.namespace, self.records)

    # -- progress -----------------------------------------------------------------------------

    def can_stall(self, spec: Spec, numbers: AnyReplicasStatus) -> bool:  # noqa: ARG002
        """Return whether a pod that decides runs."""
        return self.trains(spec)

    def trains(self, spec: Spec) -> bool:
        """Return whether a pod that decides runs."""
        return State.RUNNING in self.current(spec).deciding.values()

    def seconds_to_start(
        self,
        spec: Spec,
        numbers: AnyReplicasStatus,  # noqa: ARG002
        progress: Progress,
    ) -> float | None:
        """Return the seconds left to start; once it has run, it waits for lost pods for ever."""
        if progress.running or runpolicy.has_run(self.stored):
            return None
        return self.time_left_to_start(self.policy(spec))

    def members(self, spec: Spec) -> int:
        """Return the number of pods that are created together."""
        return sum(state not in ENDED for state in self.current(spec).states.values())

    def running_text(self, spec: Spec) -> str:  # noqa: ARG002
        """Return what is said of a job that runs."""
        return f"{self.subject} is running."

    def progress(
        self,
        spec: Spec,
        numbers: AnyReplicasStatus,
        found: list[Problem],
        missing: str = "",
    ) -> Progress:
        """Return the state of the job.

        Args:
            spec: The desired state.
            numbers: The status with the counts of this reconcile.
            found: What is invalid in the spec.
            missing: Why fewer pods are asked for than are desired; empty if all are.
        """
        return progress(
            self.observed,
            self.stored,
            self.current(spec),
            self.words,
            running=self.running_text(spec),
            records=podrecords.read(numbers.pod_records),
            problem=self.sync_problem(found),
            missing=missing,
        )

    # -- the children -------------------------------------------------------------------------

    def write(self, plan: Plan, spec: Spec, numbers: AnyReplicasStatus) -> list[float]:  # noqa: ARG002
        """Create Services and pods that are missing, and delete what is not desired."""
        current = self.current(spec)
        services = [
            Write(create=self.service(spec, place))
            for name, place in current.names.items()
            if name not in current.services
        ]
        missing = [
            Write(create=self.pod(spec, place))
            for name, place in current.names.items()
            if name not in current.pods
        ]
        plan.stages = stages(services, missing)
        return self.delete_unwanted(plan, current)

    def delete_unwanted(self, plan: Plan, current: Current) -> list[float]:
        """Delete what is not desired, or to be recreated; return the seconds to wait for more."""
        waits = []
        for pod in current.pods.values():
            if pod.metadata.name not in current.names:
                self.delete_released(plan, self.records, current.key_of(pod), pod)
        self.delete_services(plan, keep={*current.names, *current.absent.values()})
        for place, state in current.states.items():
            pod_there, record = current.pod(place), self.records.get(place.key)
            if pod_there is None:
                continue
            if state is State.STALLED:
                plan.delete_pods([pod_there])
                continue
            if state not in TO_RECREATE or record is None:
                continue
            wait = seconds_to_recreate(pod_there, record, state, current.named, self.now)
            if wait > 0:
                waits.append(wait)
            elif record.failed and podrecords.is_of(record, pod_there):
                plan.delete_pods([pod_there])
        return waits

    def suspend(self, plan: Plan, spec: Spec) -> None:
        """Delete the pods, once they are stored as released."""
        current = self.current(spec)
        for pod in self.observed.pods:
            self.delete_released(plan, self.records, current.key_of(pod), pod)

    def delete_services(self, plan: Plan, keep: set[str]) -> None:
        """Delete the Services of pods that no longer exist; until then their names are in use."""
        kept = keep | {pod.metadata.name for pod in self.observed.pods}
        for key, view in self.observed.children.items():
            if key.kind == "Service" and key.name not in kept:
                plan.delete_child(key, view)
