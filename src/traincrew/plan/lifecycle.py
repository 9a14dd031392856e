"""The one state machine: conditions and phases.

Every kind tells `advance` what it has found out; `advance` decides what that means for the status.
The rules, after Kubeflow's vocabulary and the batch Job's habits (docs/design/status.md):

- Terminal absorbs. Once Succeeded or Failed is true nothing but the numbers of remaining pods
  changes, whatever happens to the children or the spec.
- At most one of Succeeded and Failed is ever true; then Running and Restarting are false.
- Running, Restarting and Suspended exclude each other.
- ``lastTransitionTime`` moves exactly when ``status`` does.
- ``startTime`` is set once per execution, ``completionTime`` once.
- Counters only grow; `podrecords` says how restarts are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from traincrew.api.meta import Condition, format_time
from traincrew.plan.fit import ALL_WANTED, GIVEN_UP, Fit
from traincrew.plan.model import Event

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
"""Only present while false: the spec could not be put into effect."""
FITTED = "Fitted"
"""Fewer workers are asked for than the user wants, because there is no room."""

OWN_CONDITIONS = frozenset(
    {CREATED, RUNNING, RESTARTING, SUSPENDED, SUCCEEDED, FAILED, SYNCED, FITTED}
)
_TERMINAL = (SUCCEEDED, FAILED)
_PHASES = (FAILED, SUCCEEDED, SUSPENDED, RESTARTING, RUNNING)


class ReplicaStatus(Struct, rename="camel", kw_only=True):
    """The pods of one role, in numbers.

    ``active`` counts pods that hold resources, those being deleted included, so that a queue does
    not hand out their quota early.
    """

    active: int = 0
    ready: int = 0
    succeeded: int | msgspec.UnsetType = msgspec.UNSET
    failed: int | msgspec.UnsetType = msgspec.UNSET
    restarts: int = 0
    selector: str | msgspec.UnsetType = msgspec.UNSET
    """Selects these pods, where autoscalers want to know."""


class Status(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """The part of ``status`` all kinds share."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[Condition] = field(default_factory=list)
    observed_generation: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    workers_ready: str = ""
    restarts: int = 0
    failures: int = 0
    """Pods that failed and were made again, of kinds that count them themselves."""
    replica_statuses: dict[str, ReplicaStatus] = field(default_factory=dict)
    fit: Fit | None = None
    """Workers given up for want of room, of kinds that can do without."""
    pod_records: dict[str, Any] = field(default_factory=dict)
    """Texts of `PodRecord`, by place; see `podrecords`."""

    def condition(self, kind: str) -> Condition | None:
        """The condition of a type, if it was ever set."""
        return next((item for item in self.conditions if item.type == kind), None)

    def holds(self, kind: str) -> bool:
        """Whether a condition is true."""
        condition = self.condition(kind)
        return condition is not None and condition.is_true

    @property
    def finished(self) -> bool:
        """Whether the job has succeeded or failed, which is final."""
        return any(self.holds(kind) for kind in _TERMINAL)


class Outcome(Struct, frozen=True, kw_only=True):
    """How a job ended.

    Attributes:
        succeeded: Or failed.
        reason: In one word.
        message: For people.
        at: When, if somebody else (a Job) has decided it; else now.
        probed_at: ``lastProbeTime`` of that decision.
    """

    succeeded: bool
    reason: str
    message: str
    at: str | None = None
    probed_at: str | None = None


class Progress(Struct, frozen=True, kw_only=True):
    """How far a job is that has not ended: running, restarting, or neither and why."""

    reason: str
    message: str
    running: bool = False
    restarting: bool = False
    started_at: str | None = None
    """When this execution started; None while it has not."""
    sync_problem: str | None = None
    """Why the spec is not in effect."""
    sync_reason: str = ""
    fitted: str = ""
    """How many workers are asked for, and which are given up, if any are."""


def read(status: Mapping[str, Any]) -> Status:
    """Decode a stored status; conditions of other origin (the Job's own) are left out."""
    decoded = msgspec.convert(status, Status, strict=False)
    decoded.conditions = [item for item in decoded.conditions if item.type in OWN_CONDITIONS]
    return decoded


def document(status: Status) -> dict[str, Any]:
    """The status as plain data."""
    plain: dict[str, Any] = msgspec.to_builtins(status)
    return plain


# -- conditions -------------------------------------------------------------------------------


def advance(
    status: Status,
    *,
    kind: str,
    generation: int,
    now: datetime,
    outcome: Outcome | None = None,
    suspend: str | None = None,
    active_pods: int = 0,
    progress: Progress | None = None,
) -> Status:
    """The status after one look at a job.

    Args:
        status: As it was; not changed.
        kind: Of the job, for reasons in Kubeflow's style (``ChainerJobRunning``).
        generation: Of the spec that was looked at.
        now: For transition times.
        outcome: How the job ended, when it did.
        suspend: The field in which the user wants it stopped, if so.
        active_pods: Pods that still hold resources.
        progress: How far the job is; not needed with an outcome.
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


def _suspend(status: Status, kind: str, field: str, active_pods: int, stamp: str) -> None:
    reason = f"{kind}Suspended"
    if active_pods:
        text = f"Waiting for {active_pods} pods to end."
        _set(status, SUSPENDED, True, stamp, reason="Draining", message=text)
    else:
        _set(status, SUSPENDED, True, stamp, reason=reason, message="No pod is left.")
    text = f"{field} is true."
    _set(status, RUNNING, False, stamp, reason=reason, message=text)
    for other in (RESTARTING, FITTED):
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
    if progress.fitted:
        _set(status, FITTED, True, stamp, reason=GIVEN_UP, message=progress.fitted)
    elif status.condition(FITTED) is not None:
        _set(status, FITTED, False, stamp, reason=ALL_WANTED, message="Every worker is asked for.")
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
    """Phase, reason and message: a pure function of the conditions."""
    by_type = {condition.type: condition for condition in conditions}
    for phase in _PHASES:
        condition = by_type.get(phase)
        if condition is not None and condition.is_true:
            return phase, condition.reason, condition.message
    waiting = by_type.get(RUNNING) or by_type.get(CREATED)
    if waiting is None:
        return "", "", ""
    return CREATED, waiting.reason, waiting.message


def is_urgent(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether one of our conditions came, went or flipped, or another spec is in effect.

    Anything else (reasons, wording, numbers) may wait a moment for more of its kind.
    """

    def essence(status: Mapping[str, Any]) -> set[tuple[Any, ...]]:
        return {
            (condition.get("type"), condition.get("status"))
            for condition in status.get("conditions", [])
            if condition.get("type") in OWN_CONDITIONS
        }

    return essence(before) != essence(after) or before.get("observedGeneration") != after.get(
        "observedGeneration"
    )


def transition_events(before: Status, after: Status) -> list[Event]:
    """Events for what has happened between two statuses; none for what is merely still so."""
    events = []
    for condition in after.conditions:
        was_true = before.holds(condition.type)
        if condition.is_true == was_true:
            continue
        if condition.type == FAILED:
            text = f"{condition.reason}: {condition.message}"
            events.append(Event("Warning", FAILED, text))
        elif condition.type == RESTARTING and condition.is_true:
            events.append(Event("Warning", RESTARTING, condition.message))
        elif condition.type == SUSPENDED and not after.finished:
            word = SUSPENDED if condition.is_true else "Resumed"
            events.append(Event("Normal", word, condition.message))
    return events
