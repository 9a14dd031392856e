"""What a kind of job says of itself; `traincrew.plan.shared.planner` decides what follows.

A kind says how its spec reads, what its pods do, whether the job has ended by itself, what a retry
is, and which children there should be. It enforces nothing of the run policy: no method here knows
a deadline, a limit or a time to live.
"""

from __future__ import annotations

# Over 400 lines: the questions to a kind are one list, which authors of kinds read as a whole.
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct

from traincrew.api.meta import Owner, Problem, parse_time
from traincrew.api.reasons import Cause
from traincrew.api.runpolicy import CommonPolicy, HasRunPolicy, policy_of
from traincrew.plan.shared import advancing, lifecycle, pods, runpolicy
from traincrew.plan.shared.gangs.job import GangSize, JobGang
from traincrew.plan.shared.kind import labelled_place
from traincrew.plan.shared.lifecycle import AnyStatus, Outcome, Progress
from traincrew.plan.shared.queueing import podsets
from traincrew.plan.shared.views import ObservedPod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from traincrew.api import kind as api
    from traincrew.plan.shared.kind import Options
    from traincrew.plan.shared.model import ChildKey, Event, ObjectKey, Observed, Plan, Refusal
    from traincrew.plan.shared.queueing.podsets import PodSet
    from traincrew.plan.shared.stall import Stalled

Spec = TypeVar("Spec", bound=CommonPolicy | HasRunPolicy)


class Attempts(Struct, frozen=True, kw_only=True):
    """What counts against ``backoffLimit``.

    Attributes:
        limit: The limit; None for none.
        failures: Number of failures that were followed, or are to be, by another attempt.
        restarts: Number of container restarts in the existing pods.
        message: What to say of a job that is past the limit; there is a general message.
        stalled: Whether the last attempt was ended because it made no progress.
    """

    limit: int | None = None
    failures: int = 0
    restarts: int = 0
    message: str = ""
    stalled: bool = False


class JobFacts(ABC, Generic[Spec, AnyStatus]):
    """One job, as its kind describes it.

    Attributes:
        definition: The kind at the API server: its names, reasons and containers.
        status_type: Type of its ``status``.
        delegates_limits: Whether a child counts the failures and enforces the deadline, and its end
            is that of the job, also while that is suspended.
        live_fields: Fields of the status that are kept up to date while pods of a finished job end.
        releasing: Whether pods are to be created or deleted as soon as this plan's status is
            stored.
    """

    definition: ClassVar[api.Kind]
    status_type: type[AnyStatus]
    delegates_limits: ClassVar[bool] = False
    live_fields: ClassVar[tuple[str, ...]] = ("replicaStatuses", "workersReady")

    def __init__(self, observed: Observed, now: datetime, options: Options) -> None:
        self.now, self.options = now, options
        self.metadata = observed.job.metadata
        self.stored = self.read(observed.job.status)
        progress, positions = advancing.observe(observed, self.stored.progress)
        self.observed = msgspec.structs.replace(
            _with_logs(observed), progress=progress, positions=positions
        )
        self.releasing = False
        self._gang: JobGang | None = None
        self.owner = Owner(
            # Jobs of a cache that does not keep it have none.
            api_version=observed.job.api_version or self.definition.api_version,
            kind=self.definition.kind,
            name=self.metadata.name,
            namespace=self.metadata.namespace,
            uid=self.metadata.uid,
            labels=self.metadata.labels,
        )

    def failure(self, cause: Cause, message: str, *, child: str = "") -> Outcome:
        """Return the outcome of a job that fails.

        Args:
            cause: Why; the kind has the word for it.
            message: The same for people.
            child: Kind of the child that was refused.
        """
        reason = self.definition.reasons.word(cause, child)
        return Outcome(succeeded=False, reason=reason, message=message)

    # -- the spec -----------------------------------------------------------------------------

    @abstractmethod
    def decode(self, spec: dict[str, Any]) -> Spec:
        """Decode a stored ``spec``; raises `msgspec.ValidationError`."""

    def references(self, spec: Spec) -> tuple[ObjectKey, ...]:  # noqa: ARG002
        """Return the objects that have to be known before anything of the job is decided."""
        return ()

    @abstractmethod
    def problems(self, spec: Spec) -> list[Problem]:
        """Return what is invalid in the spec."""

    def spec_patch(self, spec: Spec) -> dict[str, Any]:  # noqa: ARG002
        """Return a merge patch of the job's ``spec``; empty if nothing has to be written there.

        The ``spec`` is the user's. Defaults are in the schema or decided by the plan, so a kind
        overrides this only if the contract of its predecessor wants a field written.
        """
        return {}

    def policy(self, spec: Spec) -> CommonPolicy:
        """Return the run policy."""
        return policy_of(spec)

    def gang_size(self, spec: Spec) -> GangSize:  # noqa: ARG002
        """Return how many pods the job needs at least, and how many are created together.

        By default its pods do not need each other.
        """
        return GangSize(needed=1, members=1)

    def pod_templates(self, spec: Spec) -> list[dict[str, Any]]:  # noqa: ARG002
        """Return the templates of the pods, as the user has written them, for their scheduler."""
        return []

    def pod_sets(self, spec: Spec) -> list[PodSet]:  # noqa: ARG002
        """Return the pods that the job asks a queue for; without any it cannot be queued."""
        return []

    def pod_set_of(self, labels: Mapping[str, str]) -> str:
        """Return the name of the set of a pod with these labels."""
        return podsets.name_of(labelled_place(labels).role)

    def admitted(self, spec: Spec, counts: Mapping[str, int]) -> Spec:  # noqa: ARG002
        """Return the spec of the same job with no more pods than a queue has admitted.

        A kind overrides this if its jobs can run with fewer pods than they ask for.

        Args:
            spec: The desired state.
            counts: How many pods of each set may run.
        """
        return spec

    def finished_for_good(self) -> dict[str, int]:
        """Return how many pods of each set have ended and are never created again."""
        return {}

    def trains(self, spec: Spec) -> bool:  # noqa: ARG002
        """Return whether the pods that are placed train already, so that they are not released."""
        return self.stored.holds(lifecycle.RUNNING)

    def suspended(self, spec: Spec) -> Spec:
        """Return the spec of the same job, suspended."""
        changes: dict[str, Any] = {"suspend": True}
        if not isinstance(spec, CommonPolicy):
            policy = msgspec.structs.replace(spec.run_policy, suspend=True)
            changes = {"run_policy": policy}
        found: Spec = msgspec.structs.replace(spec, **changes)  # type: ignore[type-var]
        return found

    def gang(self, spec: Spec) -> JobGang:
        """Return the gang that the pods are, if they are one."""
        if self._gang is None:
            self._gang = JobGang(
                self.observed,
                self.owner,
                self.policy(spec).scheduling_policy,
                size=lambda: self.gang_size(spec),
                templates=lambda: self.pod_templates(spec),
            )
        return self._gang

    def progress_deadline(self, spec: Spec) -> int | None:
        """Return for how many seconds the job may make no progress."""
        return self.policy(spec).progress_deadline_seconds

    # -- the status ---------------------------------------------------------------------------

    def read(self, status: Mapping[str, Any]) -> AnyStatus:
        """Decode a stored status; the inverse of `document`."""
        return lifecycle.read(status, self.status_type)

    def document(self, status: AnyStatus) -> dict[str, Any]:
        """Return the whole status as plain data."""
        return lifecycle.document(status)

    @abstractmethod
    def status_with_counts(self, spec: Spec | None, *, wanted: bool = True) -> AnyStatus:
        """Return the stored status with the pod counts of this reconcile.

        Args:
            spec: The desired state; None if it no longer matters.
            wanted: Whether the job should have pods at all.
        """

    # -- what is observed ---------------------------------------------------------------------

    @property
    @abstractmethod
    def has_started(self) -> bool:
        """Whether the job has started, so that a spec that becomes invalid does not fail it."""

    @property
    def is_training(self) -> bool:
        """Whether the training was started, so that a child that is refused does not fail it."""
        return self.has_started

    def unseen(self, spec: Spec) -> tuple[ChildKey, ...]:  # noqa: ARG002
        """Return children that exist according to the stored status, but are not in the caches."""
        return ()

    def needs_confirmation(self, spec: Spec) -> bool:  # noqa: ARG002
        """Return whether the pods must be listed from the API server before any decision."""
        return False

    @abstractmethod
    def outcome(self, spec: Spec, found: list[Problem]) -> Outcome | None:
        """Return how the job has ended by itself, if it has.

        Args:
            spec: The desired state.
            found: What is invalid in it.
        """

    def attempts(self, spec: Spec, found: list[Problem]) -> Attempts:  # noqa: ARG002
        """Return what counts against ``backoffLimit``: by default, restarts of containers."""
        restarts = sum(pod.restarts for pod in self.observed.pods)
        return Attempts(limit=self.policy(spec).backoff_limit, restarts=restarts)

    @abstractmethod
    def progress(self, spec: Spec, numbers: AnyStatus, found: list[Problem]) -> Progress:
        """Return the state of a job that has neither ended nor is suspended.

        Args:
            spec: The desired state.
            numbers: The status with the counts of this reconcile; what is decided here is added.
            found: What is invalid in the spec.
        """

    def can_stall(self, spec: Spec, numbers: AnyStatus) -> bool:  # noqa: ARG002
        """Return whether the job can train, so that it has to make progress."""
        return self.stored.holds(lifecycle.RUNNING)

    def in_reading_order(self, spec: Spec) -> Sequence[ObservedPod]:  # noqa: ARG002
        """Return the pods that have to make progress, those first that write most output."""
        return self.observed.pods

    def seconds_to_start(self, spec: Spec, numbers: AnyStatus, progress: Progress) -> float | None:  # noqa: ARG002
        """Return the seconds that the pods have left to become ready; None if they need none."""
        return None if self.is_training else self.time_left_to_start(self.policy(spec))

    def time_left_to_start(self, policy: CommonPolicy, restarted_at: str = "") -> float | None:
        """Return the seconds that the pods have left to become ready; None for no limit.

        Args:
            policy: The limit.
            restarted_at: When all pods were recreated last; empty if they were not.
        """
        limit = policy.scheduling_policy.schedule_timeout_seconds
        if limit is None:
            return None
        since = runpolicy.waiting_since(self.stored) or self.now
        if restarted_at:
            since = max(since, parse_time(restarted_at))
        return limit - (self.now - since).total_seconds()

    # -- a spec that has not taken effect -----------------------------------------------------

    def sync_problem(self, found: list[Problem]) -> tuple[str, str] | None:
        """Return why the spec has not taken effect: reason and message."""
        word = self.definition.reasons.word
        if found:
            return Cause.REFUSED.value, "; ".join(str(problem) for problem in found)
        for key, refusal in self.observed.refusals.items():
            if refusal.foreign:
                kind = self.definition.kind
                text = f'Resource "{key.name}" already exists and is not managed by {kind}'
                if refusal.owner.startswith(f"{kind}."):  # the same kind in another group
                    text = f"{text}; its owner is {refusal.owner}"
                return word(Cause.FOREIGN), text
            if refusal.leftover:
                return word(Cause.LEFTOVER), self._leftover_text(key)
            return word(Cause.REFUSED, key.kind), refusal_text(key, refusal)
        for key in sorted(self.observed.leftovers):
            return word(Cause.LEFTOVER), self._leftover_text(key)
        return None

    def _leftover_text(self, key: ChildKey) -> str:
        kind = self.definition.kind
        return f"{key.kind} {key.name} of an earlier {kind} of this name is still being deleted"

    # -- what follows -------------------------------------------------------------------------

    def retry(self, spec: Spec, numbers: AnyStatus, stalled: Stalled) -> Outcome | str:  # noqa: ARG002
        """Begin another attempt of a job that makes no progress.

        Args:
            spec: The desired state.
            numbers: The status with the counts of this reconcile; the failure is recorded there,
                so that it is stored before any pod is deleted.
            stalled: For how long there was no progress.

        Returns:
            What is restarted, for people; empty if `progress` says it. By default the job fails.
        """
        return self.failure(Cause.NO_PROGRESS, f"{stalled.message}; it is not tried again")

    @abstractmethod
    def write(self, plan: Plan, spec: Spec, numbers: AnyStatus) -> Iterable[float | None]:
        """Add the writes and deletions of children to the plan; return seconds until more follow.

        It is not called while the spec is invalid, or children of an earlier job are left.
        """

    def hold(self, plan: Plan) -> None:
        """Add to the plan what must not wait until the spec is valid and the names are free."""

    def waits(self, spec: Spec, numbers: AnyStatus) -> Iterable[float | None]:  # noqa: ARG002
        """Return seconds after which the kind decides something without any change."""
        return ()

    def suspend(self, plan: Plan, spec: Spec) -> None:  # noqa: ARG002
        """Add to the plan what deletes the pods."""
        if self.stored.holds(lifecycle.SUSPENDED):
            plan.delete_pods(self.observed.pods)
        else:
            self.releasing = True  # first it is stored that these pods are ended by us

    def clean_up(self, plan: Plan, policy: CommonPolicy) -> None:
        """Add to the plan what is deleted when the job has finished."""
        if self.stored.finished:  # not before it is stored how it ended: only these pods show it
            unwanted = (pod for pod in self.observed.pods if runpolicy.is_cleaned(policy, pod))
            plan.delete_pods(unwanted)

    def expire(self, plan: Plan) -> None:
        """Add to the plan what is deleted when the time to live of a finished job is over."""
        plan.delete_job = True

    def at_end(self, plan: Plan, spec: Spec, outcome: Outcome) -> None:
        """Add to the plan what else is said of a job that ends with this reconcile."""

    # -- events -------------------------------------------------------------------------------

    def news(self, found: list[Problem]) -> list[Event]:  # noqa: ARG002
        """Return events for what happened, besides changes of conditions."""
        return []

    def transitions(self, status: AnyStatus) -> list[Event]:
        """Return events for the changes since the stored status."""
        return lifecycle.transition_events(self.stored, status)

    def events_on_spec_change(self, spec: Spec) -> list[Event]:  # noqa: ARG002
        """Return events for a version of the spec that takes effect now; none by default."""
        return []


def _with_logs(observed: Observed) -> Observed:
    """Put the logs that were read into the termination messages of the pods."""
    if not any(observed.logs.values()):
        return observed
    updated = {pod.metadata.name: pods.with_logs(pod, observed.logs) for pod in observed.pods}
    children = {
        key: updated[key.name] if isinstance(view, ObservedPod) and key.name in updated else view
        for key, view in observed.children.items()
    }
    return msgspec.structs.replace(observed, pods=tuple(updated.values()), children=children)


def refusal_text(key: ChildKey, refusal: Refusal, limit: int = 300) -> str:
    """Return why the API refuses a child.

    Args:
        key: The child.
        refusal: The refusal.
        limit: Maximum number of characters of the API's own message.
    """
    return f"{key.kind} {key.name}: {pods.shorten(refusal.message, limit)}"


def master_progress(
    state: tuple[str, str, str] | None,
    *,
    problem: tuple[str, str] | None,
    waiting_for: str | None,
    started_at: str | None,
) -> Progress:
    """Return the progress of a job whose master starts the processes in the workers.

    Args:
        state: The true condition (or ""), reason and message of the master; None before its start.
        problem: Reason and message of what is wrong with the spec or the children, if anything is.
        waiting_for: Why the workers are not ready; None when all of them are.
        started_at: When the job was started, for a master that was.
    """
    if state is None:
        reason, message = "MasterPending", "The master is being created."
        if problem is not None:
            reason, message = problem
            if waiting_for is not None and "; " in waiting_for:  # the workers have troubles, too
                message = f"{message}; {waiting_for}"
        elif waiting_for is not None:
            reason, message = "WaitingForWorkers", waiting_for
        return Progress(reason=reason, message=message)
    condition, reason, message = state
    return Progress(
        reason=reason,
        message=message,
        running=condition == lifecycle.RUNNING,
        restarting=condition == lifecycle.RESTARTING,
        started_at=started_at,
    )
