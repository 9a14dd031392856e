"""The states of these pods, and what can be told from a pod that has ended."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING

from traincrew.api.meta import parse_time
from traincrew.plan.shared import programs, runpolicy
from traincrew.plan.shared.pods import was_disrupted

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.views import ObservedPod

MIN_RECREATE_AGE = timedelta(seconds=10)
"""Minimum age of a failed pod before it is recreated, so that a program that fails at once does not
keep the whole cluster busy. A pod that ran for longer is recreated at once."""


class State(Enum):
    """The state of the pod in a place."""

    WAITING = auto()
    """There is no pod, or it does not run yet."""
    RUNNING = auto()
    TERMINATING = auto()
    """It is being deleted."""
    SUCCEEDED = auto()
    RETRYABLE = auto()
    """It failed, and is to be recreated."""
    DISRUPTED = auto()
    """The same, but through no fault of its own, so the failure is not counted."""
    STALLED = auto()
    """It is to be recreated because the job made no progress, which is stored and counted."""
    UNDECIDED = auto()
    """It failed; it is too early to decide whether that was its own fault."""
    FAILED = auto()
    """It failed for good."""


TO_RECREATE = frozenset({State.RETRYABLE, State.DISRUPTED, State.STALLED})
FAILURES = frozenset({State.RETRYABLE, State.DISRUPTED, State.FAILED})
"""A pod in one of these states ended by itself or was disrupted, and that is recorded."""
ENDED = frozenset({State.SUCCEEDED, State.FAILED})


def exit_code(pod: ObservedPod, named: Collection[str]) -> int | None:
    """Return the exit code of a pod's program; None if it has not ended, or never ran."""
    status = programs.program(pod, named)
    ended = status.state.terminated if status is not None else None
    return ended.exit_code if ended is not None else None


def ended_at(pod: ObservedPod, named: Collection[str]) -> datetime | None:
    """Return when the program of a pod terminated; None if it is not known.

    If it never ran, it is when the last of the other containers did.
    """
    own = programs.program(pod, named)
    among = [own] if own is not None and own.state.terminated is not None else None
    times = [
        parse_time(status.state.terminated.finished_at)
        for status in among or programs.that_can_fail(pod, named)
        if status.state.terminated is not None and status.state.terminated.finished_at
    ]
    return max(times, default=None)


def restart_delay(
    pod: ObservedPod, record: PodRecord, state: State, named: Collection[str]
) -> timedelta:
    """Return how long after its end a pod is recreated, as far as its own failures decide that.

    Args:
        pod: The pod.
        record: Its record, with its own failure.
        state: Its state; only a failure that is counted makes it wait.
        named: Names of the container that runs the program.
    """
    if state is not State.RETRYABLE:
        return timedelta(0)
    ended = ended_at(pod, named)
    created = parse_time(pod.metadata.creation_timestamp)
    return runpolicy.backoff(record.failures - 1, ended - created if ended else timedelta(0))


def seconds_to_recreate(
    pod: ObservedPod, record: PodRecord, state: State, named: Collection[str], now: datetime
) -> float:
    """Return the seconds until a pod that has ended may be deleted, and so created again."""
    created = parse_time(pod.metadata.creation_timestamp)
    ended = min(ended_at(pod, named) or now, now)
    due = max(created + MIN_RECREATE_AGE, ended + restart_delay(pod, record, state, named))
    return max(0.0, (due - now).total_seconds())


def is_disrupted(pod: ObservedPod, named: Collection[str]) -> bool:
    """Whether the pod was ended by something other than its own containers."""
    return was_disrupted(pod) or not (pod.status.reason or _has_failed(pod, named))


def _has_failed(pod: ObservedPod, named: Collection[str]) -> bool:
    """Whether a container of the pod is known to have failed."""
    return any(
        status.state.terminated is not None and status.state.terminated.exit_code != 0
        for status in programs.that_can_fail(pod, named)
    )


def has_succeeded(pod: ObservedPod, named: Collection[str]) -> bool:
    """Whether the program ended well by itself, however what runs beside it did."""
    if pod.status.phase == "Succeeded":
        return True
    by_itself = not (was_disrupted(pod) or pod.status.reason)
    return pod.status.phase == "Failed" and by_itself and exit_code(pod, named) == 0


def is_being_restarted(pod: ObservedPod, named: Collection[str]) -> bool:
    """Whether the kubelet restarts the program in its pod, and it does not run yet."""
    status = programs.program(pod, named)
    return (
        status is not None
        and status.state.waiting is not None
        and status.last_state.terminated is not None
    )
