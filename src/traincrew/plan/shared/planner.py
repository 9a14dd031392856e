"""The decisions for one job, in the same order for every kind.

being deleted      -> nothing; garbage collection deletes its children
finished           -> final: only the cleanup of pods and the time to live continue
invalid            -> Failed, with the field and the fix
spec incomplete    -> write what the kind's contract wants there
ended              -> Succeeded or Failed, and the cleanup
suspended          -> delete the pods
else               -> what the kind does to make progress

A kind defines its children and evaluates their state; conditions, run policy and refused writes are
handled here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from traincrew.api import placeholders
from traincrew.api.meta import Owner, Problem, parse_time
from traincrew.api.reasons import Cause
from traincrew.plan.shared import advancing, beginning, lifecycle, pods, runpolicy, stall
from traincrew.plan.shared.lifecycle import AnyStatus, Outcome, Progress
from traincrew.plan.shared.model import (
    ChildKey,
    Event,
    LogKey,
    Observed,
    OutputQuery,
    Plan,
    PodView,
    Refusal,
    StatefulSetView,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from traincrew.api import kind as api
    from traincrew.api.reasons import Reasons
    from traincrew.api.runpolicy import CommonPolicy, SchedulingPolicy
    from traincrew.plan.shared.kind import Options

FAILED_SYNCED = Cause.REFUSED.value
RESOURCE_EXISTS = Cause.FOREIGN.value
WAITING_FOR_DELETION = Cause.LEFTOVER.value
"""Reasons of the condition ``Synced`` as well, which becomes that of the failure if it lasts."""
RESOURCE_EXISTS_RETRY_SECONDS = 30.0
"""The deletion of an object that is not managed by the job triggers no reconcile, so requeue."""

MAX_CONTROLLER_LAG = timedelta(seconds=10)
"""Maximum age of a StatefulSet whose controller has not seen it, so that nobody asks why pods are
missing. When many are created at once, its controller is behind."""

_MAX_LOGS_READ = 3
"""Maximum number of logs read for one message; it shows this many failures."""

Spec = TypeVar("Spec")


class JobPlanner(ABC, Generic[Spec, AnyStatus]):
    """Decides what one job needs next; a kind implements the abstract methods.

    Attributes:
        definition: The kind at the API server: its names, reasons and containers.
        status_type: Type of its ``status``.
        suspend_field: Path of the field that suspends a job.
        default_policy: Run policy of a job whose spec cannot be decoded.
        releasing: Whether pods are to be created or deleted as soon as this plan's status is
            stored.
    """

    definition: api.Kind
    status_type: type[AnyStatus]
    suspend_field: str
    default_policy: CommonPolicy

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        self.now, self.options = now, options
        self.metadata = observed.job.metadata
        self.stored = self.read(observed.job.status)
        progress, positions = advancing.observe(observed, self.stored.progress)
        self.observed = msgspec.structs.replace(
            _with_logs(observed), progress=progress, positions=positions
        )
        self._deadline: int | None = None
        self._advance_left: float | None = None
        self.releasing = False
        self.owner = Owner(
            # Jobs of a cache that does not keep it have none.
            api_version=observed.job.api_version or self.definition.api_version,
            kind=self.kind,
            name=self.metadata.name,
            namespace=self.metadata.namespace,
            uid=self.metadata.uid,
            labels=self.metadata.labels,
        )

    @property
    def kind(self) -> str:
        """Name of the kind, which begins its reasons."""
        return self.definition.kind

    @property
    def reasons(self) -> Reasons:
        """The reasons with which its jobs fail."""
        return self.definition.reasons

    # -- implemented by a kind ----------------------------------------------------------------

    @abstractmethod
    def decode(self, spec: dict[str, Any]) -> Spec:
        """Decode a stored ``spec``; raises `msgspec.ValidationError`."""

    @abstractmethod
    def policy(self, spec: Spec) -> CommonPolicy:
        """Return the run policy, which kinds have in different places."""

    @abstractmethod
    def problems(self, spec: Spec) -> list[Problem]:
        """Return what is invalid in the spec."""

    @property
    @abstractmethod
    def has_started(self) -> bool:
        """Whether the job has started, so that a spec that becomes invalid does not fail it."""

    @abstractmethod
    def status_with_counts(self, spec: Spec | None, *, wanted: bool = True) -> AnyStatus:
        """Return the stored status with the pod counts of this reconcile.

        Args:
            spec: The desired state; None if it no longer matters.
            wanted: Whether the job should have pods at all.
        """

    def read(self, status: Mapping[str, Any]) -> AnyStatus:
        """Decode a stored status; the inverse of `document`."""
        return lifecycle.read(status, self.status_type)

    def document(self, status: AnyStatus) -> dict[str, Any]:
        """Return the whole status as plain data."""
        return lifecycle.document(status)

    @abstractmethod
    def outcome(self, spec: Spec, found: list[Problem]) -> Outcome | None:
        """Return how the job has ended, if it has."""

    @abstractmethod
    def plan_active(self, spec: Spec, found: list[Problem]) -> Plan:
        """Plan for a job that is neither finished nor suspended."""

    @abstractmethod
    def clean_up(self, plan: Plan, policy: CommonPolicy) -> None:
        """Add to the plan what is deleted when the job has finished."""

    @abstractmethod
    def suspend(self, plan: Plan, spec: Spec) -> None:
        """Add to the plan what deletes the pods."""

    def unseen(self, spec: Spec) -> tuple[ChildKey, ...]:  # noqa: ARG002 - likewise
        """Return children that exist according to the stored status, but are not in the caches."""
        return ()

    def needs_confirmation(self, spec: Spec) -> bool:  # noqa: ARG002 - of interest to some kinds
        """Return whether the pods must be listed from the API server before any decision."""
        return False

    def transitions(self, status: AnyStatus) -> list[Event]:
        """Return events for the changes since the stored status."""
        return lifecycle.transition_events(self.stored, status)

    @abstractmethod
    def events_on_spec_change(self, spec: Spec) -> list[Event]:
        """Return events for a version of the spec that takes effect now."""

    def progress_deadline(self, spec: Spec) -> int | None:
        """Return for how many seconds the reports of the program may not advance."""
        return self.policy(spec).progress_deadline_seconds

    def spec_patch(self, spec: Spec) -> dict[str, Any]:  # noqa: ARG002 - of interest to some kinds
        """Return a merge patch of the job's ``spec``; empty if nothing has to be written there.

        The ``spec`` is the user's. Defaults are in the schema or decided by the plan, so a kind
        overrides this only if the contract of its predecessor wants a field written.
        """
        return {}

    def failure(self, cause: Cause, message: str, *, child: str = "") -> Outcome:
        """Return the outcome of a job that fails.

        Args:
            cause: Why; the kind has the word for it.
            message: The same for people.
            child: Kind of the child that was refused.
        """
        return Outcome(succeeded=False, reason=self.reasons.word(cause, child), message=message)

    # -- the decision -------------------------------------------------------------------------

    def plan(self) -> Plan:
        """Return what has to be done."""
        if self.metadata.deletion_timestamp is not None:
            return Plan(status=self.observed.job.status)
        try:
            spec = self.decode(self.observed.job.spec)
        except msgspec.ValidationError as error:
            if self.stored.finished:
                return self._plan_finished(self.default_policy)
            return self._plan_invalid([Problem("spec", str(error))])
        policy = self.policy(spec)
        self._deadline = self.progress_deadline(spec)
        if self.stored.finished:
            return self._plan_finished(policy)
        found = self.problems(spec)
        if not self.has_started:  # a job that runs with one does not stop for it
            found = [*placeholders.problems(self.observed.job.spec, "spec"), *found]
        if found and not self.has_started:
            return self._plan_invalid(found)
        if not found and (patch := self.spec_patch(spec)):
            return Plan(spec=patch, status=self.observed.job.status)
        if not found and not self.observed.confirmed and self.needs_confirmation(spec):
            unseen = self.unseen(spec)
            return Plan(confirm=True, unseen=unseen, status=self.observed.job.status)
        if logs := self._unread_logs():
            return Plan(logs=logs, status=self.observed.job.status)
        if (outcome := self.outcome(spec, found)) is not None:
            return self.plan_end(spec, outcome)
        if policy.suspend:
            return self._plan_suspended(spec)
        return self.plan_active(spec, found)

    def _unread_logs(self) -> tuple[LogKey, ...]:
        """Return logs to read of the first pods that failed; others probably failed as a result."""
        left = _MAX_LOGS_READ - len(self.observed.logs)
        if left <= 0:
            return ()
        failed = sorted(
            self.observed.pods, key=lambda pod: pods.ended_at(pod, self.definition.containers)
        )
        unread = [
            key for pod in failed for key in pods.logs_to_read(pod) if key not in self.observed.logs
        ]
        return tuple(unread[:left])

    def plan_end(self, spec: Spec, outcome: Outcome) -> Plan:
        """Plan for a job that ends with this reconcile."""
        numbers = self.status_with_counts(spec)
        numbers.pod_records = {}  # restarts are no longer counted
        status = self.advance(numbers, outcome=outcome)
        plan = self._cleaned_up(status, self.policy(spec))
        plan.events = self.transitions(status)
        return plan

    def _plan_invalid(self, found: list[Problem]) -> Plan:
        """Plan for a job that fails because its spec is invalid and it has not started."""
        text = "; ".join(str(problem) for problem in found)
        text = f"{text}. Correct the manifest, delete the job and create it again."
        outcome = self.failure(Cause.INVALID, text)
        status = self.advance(self.status_with_counts(None), outcome=outcome)
        plan = self._cleaned_up(status, self.default_policy)
        plan.events = [
            Event("Warning", FAILED_SYNCED, problem.event or str(problem)) for problem in found
        ]
        return plan

    @property
    def is_at_rest(self) -> bool:
        """Whether a job has finished, and nothing of it is left that runs.

        What another version has stored of such a job is then left alone, whatever this one would
        write: its status, and the children that do not run.
        """
        if not self.stored.finished or any(pod.active for pod in self.observed.pods):
            return False
        roles = self.observed.job.status.get("replicaStatuses") or {}
        found = roles.values() if isinstance(roles, dict) else roles
        return not any(role.get("active") for role in found if isinstance(role, dict))

    def _plan_finished(self, policy: CommonPolicy) -> Plan:
        """Plan for a finished job: only the cleanup of pods and the time to live continue."""
        numbers = self.status_with_counts(None)
        # Records are no longer kept, so every reconcile would count a restart again.
        statuses = {
            name: msgspec.structs.replace(found, restarts=self._restarts(name))
            for name, found in numbers.replica_statuses.items()
        }
        status = msgspec.structs.replace(
            numbers,
            conditions=self.stored.conditions,
            replica_statuses=statuses,
        )
        late = self.metadata.generation > self.stored.observed_generation
        if late:
            status = lifecycle.with_late_edit(status, self.metadata.generation, self.now)
        plan = self._cleaned_up(status, policy)
        edit = self._late_edit(status) if late else []
        before, after = self.observed.job.status, plan.status
        changing = {"replicaStatuses", "workersReady"} if not self.is_at_rest else set()
        if edit:
            changing.add("conditions")
        plan.status = {
            **before,
            **{name: after[name] for name in sorted(changing) if name in after},
        }
        if late:
            plan.events = edit
        left = runpolicy.time_to_live(status, policy, self.now)
        if left is not None:
            plan.requeue_after = left.total_seconds()
            plan.delete_job = plan.requeue_after <= 0
        return plan

    def _late_edit(self, status: AnyStatus) -> list[Event]:
        """Report once for each version of the spec that it will not run."""
        before, now = self.stored.condition(lifecycle.SYNCED), status.condition(lifecycle.SYNCED)
        assert now is not None
        if before is not None and before.message == now.message:
            return []
        return [Event("Warning", now.reason, now.message)]

    def _restarts(self, name: str) -> int:
        before = self.stored.replica_statuses.get(name)
        return before.restarts if before is not None else 0

    def _plan_suspended(self, spec: Spec) -> Plan:
        numbers = self.status_with_counts(spec, wanted=False)
        active = sum(pod.active for pod in self.observed.pods)
        status = self.advance(numbers, suspend=self.suspend_field, active_pods=active)
        plan = Plan(status=self.document(status))
        self.suspend(plan, spec)
        plan.events = self.transitions(status)
        return self.complete(plan)

    def _cleaned_up(self, status: AnyStatus, policy: CommonPolicy) -> Plan:
        plan = Plan(status=self.document(status))
        self.clean_up(plan, policy)
        return self.complete(plan)

    def knowledge_for(self, verdict: stall.Verdict | None) -> Plan | None:
        """Return the plan that finds out what a verdict about the job's progress depends on.

        None if nothing more has to be known.
        """
        status = self.observed.job.status
        if isinstance(verdict, OutputQuery):
            return Plan(outputs=verdict, status=status)
        return Plan(confirm=True, status=status) if isinstance(verdict, stall.Confirm) else None

    # -- the time to start --------------------------------------------------------------------

    def time_left_to_start(self, policy: SchedulingPolicy, restarted_at: str = "") -> float:
        """Return the seconds that the pods have left to become ready.

        Args:
            policy: The limit.
            restarted_at: When all pods were recreated last; empty if they were not.
        """
        since = runpolicy.waiting_since(self.stored) or self.now
        if restarted_at:
            since = max(since, parse_time(restarted_at))
        return policy.schedule_timeout_seconds - (self.now - since).total_seconds()

    def not_started_in_time(self, policy: SchedulingPolicy, progress: Progress) -> Outcome:
        """Return the outcome of a job whose workers were not ready in time."""
        reason, message = self.reasons.word(Cause.NOT_STARTED), progress.message
        before = self.stored.condition(lifecycle.SYNCED)
        if before is not None:  # the workers were not the reason
            reason, message = before.reason, before.message
        text = f"Not started within {policy.schedule_timeout_seconds} s: {message}"
        return Outcome(succeeded=False, reason=reason, message=text)

    # -- refused writes -----------------------------------------------------------------------

    def sync_problem(self, found: list[Problem]) -> tuple[str, str] | None:
        """Return why the spec has not taken effect: reason and message."""
        if found:
            return FAILED_SYNCED, "; ".join(str(problem) for problem in found)
        for key, refusal in self.observed.refusals.items():
            if refusal.foreign:
                text = f'Resource "{key.name}" already exists and is not managed by {self.kind}'
                if refusal.owner.startswith(f"{self.kind}."):  # the same kind in another group
                    text = f"{text}; its owner is {refusal.owner}"
                return RESOURCE_EXISTS, text
            if refusal.leftover:
                return WAITING_FOR_DELETION, self._leftover_text(key)
            reason = self.reasons.word(Cause.REFUSED, key.kind)
            return reason, self._refusal_text(key, refusal)
        for key in sorted(self.observed.leftovers):
            return WAITING_FOR_DELETION, self._leftover_text(key)
        return None

    def _leftover_text(self, key: ChildKey) -> str:
        return (
            f"{key.kind} {key.name} of an earlier {self.kind} of this name is still being deleted"
        )

    def permanent_refusal(self) -> Outcome | None:
        """Return the outcome of a job whose children the API will never accept."""
        for key, refusal in self.observed.refusals.items():
            if refusal.permanent:
                text = self._refusal_text(key, refusal, 1000)
                return self.failure(Cause.REFUSED, text, child=key.kind)
        return None

    def _refusal_text(self, key: ChildKey, refusal: Refusal, limit: int = 300) -> str:
        return f"{key.kind} {key.name}: {pods.shorten(refusal.message, limit)}"

    def sync_events(self, spec: Spec, status: AnyStatus, progress: Progress) -> list[Event]:
        """Return events for a spec that has taken effect, or that could not."""
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
        return self.events_on_spec_change(spec)

    # -- assembling the plan ------------------------------------------------------------------

    def advance(
        self,
        numbers: AnyStatus,
        *,
        outcome: Outcome | None = None,
        progress: Progress | None = None,
        suspend: str | None = None,
        active_pods: int = 0,
    ) -> AnyStatus:
        """Return the status after this reconcile."""
        synced = progress is None or progress.sync_problem is None
        generation = self.metadata.generation if synced else self.stored.observed_generation
        advance = self._assess_reports(progress) if progress is not None else None
        return lifecycle.advance(
            msgspec.structs.replace(numbers, progress=self.observed.progress),
            kind=self.kind,
            generation=generation,
            now=self.now,
            outcome=outcome,
            suspend=suspend,
            active_pods=active_pods,
            progress=progress,
            advance=advance,
        )

    def _assess_reports(self, progress: Progress) -> advancing.Advance | None:
        """Return whether the reports of the program advance; only while the job is running."""
        if self.observed.progress is None or not progress.running or progress.restarting:
            return None
        advance = advancing.assess(
            self.observed.progress,
            self.observed.positions,
            began=advancing.began(self.observed.pods),
            deadline=self._deadline,
            stored=self.stored.condition(lifecycle.PROGRESSING),
            now=self.now,
        )
        self._advance_left = advance.seconds if advance is not None else None
        return advance

    def complete(self, plan: Plan) -> Plan:
        """Set what follows from the rest of the plan."""
        before = self.observed.job.status
        plan.urgent = self.releasing or lifecycle.is_urgent(before, plan.status, self.status_type)
        begins = beginning.is_beginning(before, plan.status, self.status_type)
        plan.patient = not self.releasing and (begins or not plan.urgent)
        waits = [
            plan.requeue_after,
            self._advance_left,
            pods.seconds_until_late(self.observed.pods, self.now),
        ]
        if plan.missing and (left := self._controller_lag()) > 0:
            plan.missing = {}
            waits.append(left)
        plan.requeue_after = min((wait for wait in waits if wait is not None), default=None)
        return plan

    def _controller_lag(self) -> float:
        """Return for how many seconds the controller of a StatefulSet may not have seen it yet."""
        created = [
            parse_time(child.metadata.creation_timestamp)
            for child in self.observed.children.values()
            if isinstance(child, StatefulSetView) and not child.is_observed
        ]
        left = max(created) + MAX_CONTROLLER_LAG - self.now if created else timedelta()
        return max(0.0, left.total_seconds())


def _with_logs(observed: Observed) -> Observed:
    """Put the logs that were read into the termination messages of the pods."""
    if not any(observed.logs.values()):
        return observed
    updated = {pod.metadata.name: pods.with_logs(pod, observed.logs) for pod in observed.pods}
    children = {
        key: updated[key.name] if isinstance(view, PodView) and key.name in updated else view
        for key, view in observed.children.items()
    }
    return msgspec.structs.replace(observed, pods=tuple(updated.values()), children=children)
