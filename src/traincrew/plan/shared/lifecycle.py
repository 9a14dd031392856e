"""The one state machine: conditions and phases.

Every kind passes its `Progress` (`_progress` in the kind's planner) to `advance`, which decides
what that means for the status.
The rules, with Kubeflow's vocabulary and the behavior of a batch Job (docs/design/status.md):

- Succeeded and Failed are final. Once one of them is true, nothing but the counts of remaining pods
  changes, whatever happens to the children or the spec.
- At most one of Succeeded and Failed is ever true; then Running and Restarting are false.
- Running, Restarting and Suspended are mutually exclusive.
- ``lastTransitionTime`` changes exactly when ``status`` does.
- ``startTime`` is set once per execution, ``completionTime`` once.
- Counters only grow; `podrecords` counts the restarts.
"""
# Over 400 lines: one state machine: every rule about a condition is here.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec
from msgspec import Struct, field

from traincrew.api.meta import Condition, format_time
from traincrew.plan.shared import advancing, pods, stall
from traincrew.plan.shared.model import Event
from traincrew.plan.shared.progress import ReportedProgress  # noqa: TC001 - decoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

CREATED = "Created"
RUNNING = "Running"
RESTARTING = "Restarting"
SUSPENDED = "Suspended"
SUCCEEDED = "Succeeded"
FAILED = "Failed"
SYNCED = "Synced"
"""Present only while false: the spec has not taken effect."""
PROGRESSING = "Progressing"
"""Present only while the program reports: whether its reports advance. No part of the phase."""
RELEASED = "GangReleased"
"""Reason of a job whose pods were released, because only some of them had found room."""
FINISHED = "JobFinished"
"""Reason of `SYNCED` when the spec of a finished job has been changed."""

OWN_CONDITIONS = frozenset(
    {CREATED, RUNNING, RESTARTING, SUSPENDED, SUCCEEDED, FAILED, SYNCED, PROGRESSING}
)
"""Condition types that every kind has."""
_TERMINAL = (SUCCEEDED, FAILED)
_BEGINNING = frozenset({(CREATED, "True"), (RUNNING, "False"), (RUNNING, "True")})
"""Changes that may wait when many jobs begin at once."""
_PHASES = (FAILED, SUCCEEDED, SUSPENDED, RESTARTING, RUNNING)


class ReplicaStatus(Struct, rename="camel", kw_only=True):
    """The number of pods of one role, by state.

    ``active`` counts pods that hold resources, terminating ones included, so that a queue does not
    release their quota too early.
    """

    active: int = 0
    ready: int = 0
    succeeded: int | msgspec.UnsetType = msgspec.UNSET
    failed: int | msgspec.UnsetType = msgspec.UNSET
    restarts: int = 0
    selector: str | msgspec.UnsetType = msgspec.UNSET
    """Label selector of these pods, for autoscalers."""
    slots: int | msgspec.UnsetType = msgspec.UNSET
    """MPI slots of each of these pods in the hostfile."""


class QueueStatus(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """``status.queue`` of a job.

    Attributes:
        name: The LocalQueue.
        workload: The Workload, until its quota has been given back for good.
        cluster_queue: The ClusterQueue that has admitted the job; empty if none has.
        admitted: How many pods of each set were admitted, if fewer than the job asks for.
        message: What it asks for meanwhile, to grow, and why it has to wait; empty for nothing.
    """

    name: str = ""
    workload: str = ""
    cluster_queue: str = ""
    admitted: dict[str, int] = field(default_factory=dict)
    message: str = ""


class Status(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """The part of ``status`` that all kinds share; a kind that stores more extends it.

    Attributes:
        more_conditions: Condition types that only this kind has. They are false while a job is
            suspended.
    """

    more_conditions: ClassVar[tuple[str, ...]] = ()

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[Condition] = field(default_factory=list)
    observed_generation: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    workers_ready: str = ""
    restarts: int = 0
    replica_statuses: dict[str, ReplicaStatus] = field(default_factory=dict)
    progress: ReportedProgress | None = None
    """The newest report of the training program."""
    gang_releases: int = 0
    """How often the pods were released since the job was created, resumed or last running."""
    gang_released_at: str = ""
    """When they were released last; empty if they have been created again."""
    queue: QueueStatus | None = None
    """What is known of the queue of the job, if it asks for one."""
    pod_records: dict[str, Any] = field(default_factory=dict)
    """Texts of `PodRecord`, by place; see `podrecords`."""

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of a type, if it was ever set."""
        return next((item for item in self.conditions if item.type == kind), None)

    def holds(self, kind: str) -> bool:
        """Return whether a condition is true."""
        condition = self.condition(kind)
        return condition is not None and condition.is_true

    @classmethod
    def owns(cls, kind: str) -> bool:
        """Return whether a condition type is ours; a status may contain those of a Job as well."""
        return kind in OWN_CONDITIONS or kind in cls.more_conditions

    @property
    def finished(self) -> bool:
        """Whether the job has succeeded or failed, which is final."""
        return any(self.holds(kind) for kind in _TERMINAL)


AnyStatus = TypeVar("AnyStatus", bound=Status)


class Flag(Struct, frozen=True, kw_only=True):
    """A condition of `Status.more_conditions`. It is added when it first holds, and then kept."""

    type: str
    holds: bool
    reason: str
    message: str


class Outcome(Struct, frozen=True, kw_only=True):
    """How a job ended.

    Attributes:
        succeeded: Whether it succeeded rather than failed.
        reason: The reason, as one word in CamelCase.
        message: The human-readable message.
        at: The time, if a Job has determined the outcome; else now.
        probed_at: ``lastProbeTime`` of the Job's condition.
    """

    succeeded: bool
    reason: str
    message: str
    at: str | None = None
    probed_at: str | None = None


class Suspension(Struct, frozen=True, kw_only=True):
    """Why a job has no pods although it has not ended.

    Attributes:
        field: The field of the user that says so; empty if it is something else.
        reason: The reason, as one word in CamelCase; the kind's own if it is the user.
        text: Why, for people, if it is not the user.
    """

    field: str = ""
    reason: str = ""
    text: str = ""


class Progress(Struct, frozen=True, kw_only=True):
    """The state of a job that has not ended: running, restarting, or neither and why."""

    reason: str
    message: str
    running: bool = False
    restarting: bool = False
    started_at: str | None = None
    """When this execution started; None while it has not."""
    sync_problem: str | None = None
    """Why the spec has not taken effect."""
    sync_reason: str = ""
    flags: tuple[Flag, ...] = ()
    """Conditions of `Status.more_conditions`."""


def read(status: Mapping[str, Any], kind: type[AnyStatus]) -> AnyStatus:
    """Decode a stored status; other conditions (the Job's own) are left out."""
    decoded = msgspec.convert(status, kind, strict=False)
    decoded.conditions = [item for item in decoded.conditions if kind.owns(item.type)]
    return decoded


def document(status: Status) -> dict[str, Any]:
    """Return the status as plain data."""
    plain: dict[str, Any] = msgspec.to_builtins(status)
    return plain


# -- conditions -------------------------------------------------------------------------------


def advance(
    status: AnyStatus,
    *,
    kind: str,
    generation: int,
    now: datetime,
    outcome: Outcome | None = None,
    suspend: Suspension | None = None,
    active_pods: int = 0,
    progress: Progress | None = None,
    advance: advancing.Advance | None = None,
) -> AnyStatus:
    """Return the status after one reconcile of a job.

    Args:
        status: The status before; not modified.
        kind: Kind of the job, for reasons in Kubeflow's style (``ChainerJobRunning``).
        generation: Generation of the spec that was reconciled.
        now: Time of transitions.
        outcome: How the job ended, if it did.
        suspend: Why the job has no pods, if it is to have none.
        active_pods: Number of pods that still hold resources.
        progress: The state of the job; not needed with an outcome.
        advance: Whether the reports of its program advance, if something is said of it.
    """
    if status.finished:
        return status
    after = msgspec.structs.replace(
        status,
        conditions=[msgspec.structs.replace(item) for item in status.conditions],
        observed_generation=generation,
    )
    stamp = format_time(now)
    if after.condition(CREATED) is None:
        text = f"{kind} has been seen."
        _set(after, CREATED, True, stamp, reason=f"{kind}Created", message=text)
    if outcome is not None:
        _finish(after, outcome, stamp)
    elif suspend is not None:
        _suspend(after, kind, suspend, active_pods, stamp)
    else:
        assert progress is not None
        _progress(after, kind, progress, stamp)
    if advance is None:
        _drop(after, PROGRESSING)
    else:
        reason, message = advance.reason, advance.message
        _set(after, PROGRESSING, advance.holds, stamp, reason=reason, message=message)
    after.phase, after.reason, after.message = summary(after.conditions)
    return after


def _finish(status: Status, outcome: Outcome, stamp: str) -> None:
    word = SUCCEEDED if outcome.succeeded else FAILED
    text = f"The job has {word.lower()}."
    for other in (RUNNING, RESTARTING, SUSPENDED):
        if other == RUNNING or status.condition(other) is not None:
            _set(status, other, False, stamp, reason=outcome.reason, message=text)
    _drop(status, SYNCED)
    at = outcome.at or stamp
    _set(
        status,
        word,
        True,
        at,
        reason=outcome.reason,
        message=outcome.message,
        probed=outcome.probed_at,
    )
    status.completion_time = at


def with_late_edit(status: AnyStatus, generation: int, now: datetime) -> AnyStatus:
    """Return the status of a finished job whose spec was changed afterwards; its outcome stays."""
    after = msgspec.structs.replace(
        status, conditions=[msgspec.structs.replace(item) for item in status.conditions]
    )
    text = (
        f"The job has finished; its spec (generation {generation}) was changed afterwards and will"
        " not run. Only cleanPodPolicy and ttlSecondsAfterFinished still have an effect. To run the"
        " job again, delete it and create it again."
    )
    _set(after, SYNCED, False, format_time(now), reason=FINISHED, message=text)
    return after


def _suspend(status: Status, kind: str, suspend: Suspension, active_pods: int, stamp: str) -> None:
    reason = suspend.reason or f"{kind}Suspended"
    if suspend.text:
        _set(status, SUSPENDED, True, stamp, reason=reason, message=suspend.text)
    elif active_pods:
        text = f"Waiting for {pods.quantity(active_pods, 'pod')} to end."
        _set(status, SUSPENDED, True, stamp, reason="Draining", message=text)
    else:
        _set(status, SUSPENDED, True, stamp, reason=reason, message="No pod is left.")
    text = suspend.text or f"{suspend.field} is true."
    _set(status, RUNNING, False, stamp, reason=reason, message=text)
    for other in (RESTARTING, *status.more_conditions):
        if status.condition(other) is not None:
            _set(status, other, False, stamp, reason=reason, message=text)
    _drop(status, SYNCED)
    status.start_time = None


def _progress(status: Status, kind: str, progress: Progress, stamp: str) -> None:
    reason, message = progress.reason, progress.message
    if status.holds(SUSPENDED):
        text = "The job was resumed."
        _set(status, SUSPENDED, False, stamp, reason=f"{kind}Resumed", message=text)
    if progress.sync_problem is None:
        _drop(status, SYNCED)
    else:
        problem = progress.sync_problem
        _set(status, SYNCED, False, stamp, reason=progress.sync_reason, message=problem)
    if progress.restarting or status.condition(RESTARTING) is not None:
        _set(status, RESTARTING, progress.restarting, stamp, reason=reason, message=message)
    for flag in progress.flags:
        if flag.holds or status.condition(flag.type) is not None:
            _set(status, flag.type, flag.holds, stamp, reason=flag.reason, message=flag.message)
    running = progress.running and not progress.restarting
    _set(status, RUNNING, running, stamp, reason=reason, message=message)
    if progress.started_at is not None:
        status.start_time = progress.started_at


def _set(
    status: Status,
    kind: str,
    value: bool,
    stamp: str,
    *,
    reason: str,
    message: str,
    probed: str | None = None,
) -> None:
    text = "True" if value else "False"
    condition = status.condition(kind)
    if condition is None:
        condition = Condition(type=kind, status="")
        status.conditions.append(condition)
    if condition.status != text:
        condition.status = text
        condition.last_transition_time = stamp
    condition.reason, condition.message = reason, message
    condition.last_probe_time = probed


def _drop(status: Status, kind: str) -> None:
    status.conditions = [item for item in status.conditions if item.type != kind]


def summary(conditions: Iterable[Condition]) -> tuple[str, str, str]:
    """Return phase, reason and message: a pure function of the conditions."""
    by_type = {condition.type: condition for condition in conditions}
    for phase in _PHASES:
        condition = by_type.get(phase)
        if condition is not None and condition.is_true:
            return phase, condition.reason, condition.message
    waiting = by_type.get(RUNNING) or by_type.get(CREATED)
    if waiting is None:
        return "", "", ""
    return CREATED, waiting.reason, waiting.message


def is_urgent(before: Mapping[str, Any], after: Mapping[str, Any], kind: type[Status]) -> bool:
    """Whether one of our conditions was added, removed or flipped, or a new spec has taken effect.

    Other changes (reasons, messages, counts) may wait, so that several are written at once.
    """
    return own_conditions(before, kind) != own_conditions(after, kind) or before.get(
        "observedGeneration"
    ) != after.get("observedGeneration")


def own_conditions(status: Mapping[str, Any], kind: type[Status]) -> set[tuple[Any, ...]]:
    """Return type and status of each condition that the operator writes."""
    return {
        (condition.get("type"), condition.get("status"))
        for condition in status.get("conditions") or ()
        if kind.owns(condition.get("type", ""))
    }


def is_beginning(before: Mapping[str, Any], after: Mapping[str, Any], kind: type[Status]) -> bool:
    """Whether no condition changes except that the job is created, or runs.

    When many jobs begin, these changes may wait for the children of all. The end of a job, a
    problem or the effect of an edit may not.
    """
    old, new = own_conditions(before, kind), own_conditions(after, kind)
    return (
        before.get("observedGeneration") in {None, after.get("observedGeneration")}
        and old - new <= {(RUNNING, "False")}
        and new - old <= _BEGINNING
    )


def reported_stall(status: Status) -> str:
    """Return why a job is restarting, if that is because it made no progress; else ""."""
    restarting = status.condition(RESTARTING)
    if restarting is None or not restarting.is_true or restarting.reason != stall.NO_PROGRESS:
        return ""
    return restarting.message.partition(";")[0]


def transition_events(before: Status, after: Status) -> list[Event]:
    """Return events for the changes between two statuses; none for what is unchanged."""
    events = []
    for condition in after.conditions:
        was_true = before.holds(condition.type)
        if condition.is_true == was_true:
            continue
        if condition.type == FAILED:
            text = f"{condition.reason}: {condition.message}"
            events.append(Event("Warning", FAILED, text))
        elif condition.type == RESTARTING and condition.is_true:
            stalled = condition.reason == stall.NO_PROGRESS
            reason = stall.NO_PROGRESS if stalled else RESTARTING
            events.append(Event("Warning", reason, condition.message))
        elif condition.type == SUSPENDED and not after.finished:
            word = SUSPENDED if condition.is_true else "Resumed"
            events.append(Event("Normal", word, condition.message))
    return [*events, *advance_events(before, after)]


def advance_events(before: Status, after: Status) -> list[Event]:
    """Return an event if reports do not advance any more, or do again."""
    was, now = before.condition(PROGRESSING), after.condition(PROGRESSING)
    if now is None or (was is not None and was.reason == now.reason):
        return []
    if not now.is_true:
        return [Event("Warning", now.reason, now.message)]
    return [] if was is None else [Event("Normal", now.reason, now.message)]
