"""One look at one job: the same questions in the same order for every kind.

going away         -> nothing; its children go with it
finished           -> final: only what is left of the pods, and of the time to live, changes
invalid            -> Failed, with the field and the fix
defaults missing   -> store them first
ended              -> Succeeded or Failed, and what goes with that
suspended          -> no pods
else               -> what the kind has to do to get on

A kind says what it is made of and what it has found out; conditions, run policy and what stands in
the way are dealt with here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from traincrew.api.meta import Owner, Problem
from traincrew.plan import lifecycle, podrecords, pods, runpolicy
from traincrew.plan.lifecycle import Outcome, Progress, Status
from traincrew.plan.model import ChildKey, Event, Observed, Plan, Refusal

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.runpolicy import CommonPolicy

FAILED_VALIDATION = "FailedValidation"
FAILED_SYNCED = "FailedSynced"
RESOURCE_EXISTS = "ErrResourceExists"
WAITING_FOR_DELETION = "WaitingForDeletion"
FOREIGN_RETRY_SECONDS = 30.0
"""Nothing tells us when a foreign object has gone, so we look now and then."""

Spec = TypeVar("Spec")


class Look(ABC, Generic[Spec]):
    """Decides about one job; a kind fills in what is its own.

    Attributes:
        api_version: Of the kind.
        kind: Its name, which begins its reasons.
        suspend_field: Where users stop a job.
        default_policy: When the spec cannot be read.
    """

    api_version: str
    kind: str
    suspend_field: str
    default_policy: CommonPolicy

    def __init__(self, observed: Observed, now: datetime) -> None:
        self.observed, self.now = observed, now
        self.metadata = observed.job.metadata
        self.stored = lifecycle.read(observed.job.status)
        self.owner = Owner(
            api_version=self.api_version,
            kind=self.kind,
            name=self.metadata.name,
            namespace=self.metadata.namespace,
            uid=self.metadata.uid,
            labels=self.metadata.labels,
        )

    # -- what a kind says ---------------------------------------------------------------------

    @abstractmethod
    def decode(self, spec: dict[str, Any]) -> Spec:
        """Read a stored ``spec``; raises what msgspec raises."""

    @abstractmethod
    def policy(self, spec: Spec) -> CommonPolicy:
        """The run policy, wherever the kind has it."""

    @abstractmethod
    def problems(self, spec: Spec) -> list[Problem]:
        """What keeps the job from running."""

    @abstractmethod
    def defaults(self, spec: Spec) -> dict[str, Any]:
        """Merge patch with what is to be stored in the job; empty when there is nothing."""

    @property
    @abstractmethod
    def begun(self) -> bool:
        """Whether the job has begun to run, so that a spec that became wrong does not end it."""

    @abstractmethod
    def counted(self, spec: Spec | None, *, wanted: bool = True) -> Status:
        """The stored status with the numbers of this look.

        Args:
            spec: What there should be; None if that does not matter any more.
            wanted: Whether pods are wanted; else there should be none.
        """

    def document(self, status: Status) -> dict[str, Any]:
        """The whole status as plain data."""
        return lifecycle.document(status)

    @abstractmethod
    def outcome(self, spec: Spec, found: list[Problem]) -> Outcome | None:
        """How the job has ended, if it has."""

    @abstractmethod
    def going(self, spec: Spec, found: list[Problem]) -> Plan:
        """What a job that is neither finished nor suspended needs next."""

    @abstractmethod
    def stop(self, plan: Plan, policy: CommonPolicy) -> None:
        """Add to the plan what goes when the job has finished."""

    @abstractmethod
    def suspend(self, plan: Plan) -> None:
        """Add to the plan what makes the pods go."""

    def transitions(self, status: Status) -> list[Event]:
        """Events for what has happened since the stored status."""
        return lifecycle.transition_events(self.stored, status)

    @abstractmethod
    def put_into_effect(self, spec: Spec) -> list[Event]:
        """Events for a version of the spec that is in effect from now on."""

    def refused(self, key: ChildKey) -> str:  # noqa: ARG002 - of interest to some kinds
        """Reason when the API refuses a child."""
        return FAILED_SYNCED

    # -- the decision -------------------------------------------------------------------------

    def plan(self) -> Plan:
        """What has to be done."""
        if self.metadata.deletion_timestamp is not None:
            return Plan(status=self.observed.job.status)
        try:
            spec = self.decode(self.observed.job.spec)
        except msgspec.ValidationError as error:
            if self.stored.finished:
                return self._finished(self.default_policy)
            return self._invalid([Problem("spec", str(error))])
        policy = self.policy(spec)
        if self.stored.finished:
            return self._finished(policy)
        found = self.problems(spec)
        if found and not self.begun:
            return self._invalid(found)
        if not found and (defaults := self.defaults(spec)):
            return Plan(spec=defaults, status=self.observed.job.status)
        if (outcome := self.outcome(spec, found)) is not None:
            return self.ended(spec, outcome)
        if policy.suspend:
            return self._suspended(spec)
        return self.going(spec, found)

    def ended(self, spec: Spec, outcome: Outcome) -> Plan:
        """The plan of a job that ends with this look."""
        status = self.advance(self.counted(spec), outcome=outcome)
        plan = self._stopped(status, self.policy(spec))
        plan.events = self.transitions(status)
        return plan

    def _invalid(self, found: list[Problem]) -> Plan:
        """Say what is wrong; a job that has not begun to run ends here."""
        text = "; ".join(str(problem) for problem in found)
        outcome = Outcome(
            succeeded=False,
            reason=FAILED_VALIDATION,
            message=f"{text}. Correct the manifest, delete the job and create it again.",
        )
        status = self.advance(self.counted(None), outcome=outcome)
        plan = self._stopped(status, self.default_policy)
        plan.events = [
            Event("Warning", FAILED_SYNCED, problem.event or str(problem)) for problem in found
        ]
        return plan

    def _finished(self, policy: CommonPolicy) -> Plan:
        """Terminal is final: only what is left of the pods, and of the time to live, changes."""
        numbers = self.counted(None)
        # Records are not kept any more, so a restart would be counted again by every look.
        statuses = {
            name: msgspec.structs.replace(found, restarts=self._restarts(name))
            for name, found in numbers.replica_statuses.items()
        }
        status = msgspec.structs.replace(
            self.stored, replica_statuses=statuses, workers_ready=numbers.workers_ready
        )
        plan = self._stopped(status, policy)
        left = runpolicy.time_to_live(status, policy, self.now)
        if left is not None:
            plan.look_again_after = left.total_seconds()
            plan.delete_job = plan.look_again_after <= 0
        return plan

    def _restarts(self, name: str) -> int:
        before = self.stored.replica_statuses.get(name)
        return before.restarts if before is not None else 0

    def _suspended(self, spec: Spec) -> Plan:
        numbers = self.counted(spec, wanted=False)
        kept = podrecords.read(numbers.pod_records)
        numbers.pod_records = podrecords.texts(podrecords.release(kept))
        active = sum(pod.active for pod in self.observed.pods)
        status = self.advance(numbers, suspend=self.suspend_field, active_pods=active)
        plan = Plan(status=self.document(status))
        self.suspend(plan)
        plan.events = self.transitions(status)
        return self.complete(plan)

    def _stopped(self, status: Status, policy: CommonPolicy) -> Plan:
        plan = Plan(status=self.document(status))
        self.stop(plan, policy)
        return self.complete(plan)

    # -- what stands in the way ---------------------------------------------------------------

    def sync_problem(self, found: list[Problem]) -> tuple[str, str] | None:
        """Why the spec is not in effect: reason and message."""
        if found:
            return FAILED_SYNCED, "; ".join(str(problem) for problem in found)
        for key, refusal in self.observed.refusals.items():
            if refusal.foreign:
                text = f'Resource "{key.name}" already exists and is not managed by {self.kind}'
                return RESOURCE_EXISTS, text
            return self.refused(key), self._refusal_text(key, refusal)
        for key in sorted(self.observed.leftovers):
            text = (
                f"{key.kind} {key.name} of an earlier {self.kind} of this name is still being"
                " deleted"
            )
            return WAITING_FOR_DELETION, text
        return None

    def permanent_refusal(self) -> Outcome | None:
        """The end of a job whose children the API will never take."""
        for key, refusal in self.observed.refusals.items():
            if refusal.permanent:
                text = self._refusal_text(key, refusal, 1000)
                return Outcome(succeeded=False, reason=self.refused(key), message=text)
        return None

    def _refusal_text(self, key: ChildKey, refusal: Refusal, limit: int = 300) -> str:
        return f"{key.kind} {key.name}: {pods.shorten(refusal.message, limit)}"

    def sync_events(self, spec: Spec, status: Status, progress: Progress) -> list[Event]:
        """Events for a spec that is in effect now, or that has met something in its way."""
        if progress.sync_problem is not None:
            before = self.stored.condition(lifecycle.SYNCED)
            if progress.sync_reason == WAITING_FOR_DELETION or (
                before is not None and before.message == progress.sync_problem
            ):
                return []
            return [Event("Warning", progress.sync_reason, progress.sync_problem)]
        was_synced = self.stored.condition(lifecycle.SYNCED) is None
        if was_synced and status.observed_generation == self.stored.observed_generation:
            return []
        return self.put_into_effect(spec)

    # -- putting it together ------------------------------------------------------------------

    def advance(
        self,
        numbers: Status,
        *,
        outcome: Outcome | None = None,
        progress: Progress | None = None,
        suspend: str | None = None,
        active_pods: int = 0,
    ) -> Status:
        """The status after this look."""
        synced = progress is None or progress.sync_problem is None
        generation = self.metadata.generation if synced else self.stored.observed_generation
        return lifecycle.advance(
            numbers,
            kind=self.kind,
            generation=generation,
            now=self.now,
            outcome=outcome,
            suspend=suspend,
            active_pods=active_pods,
            progress=progress,
        )

    def complete(self, plan: Plan) -> Plan:
        """The plan, with what follows from the rest of it."""
        plan.urgent = lifecycle.is_urgent(self.observed.job.status, plan.status)
        return plan
