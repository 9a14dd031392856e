"""Events of a JobSet, in the words of its own controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.plan.jobset.status import (
    IN_ORDER,
    IN_PROGRESS,
    READY_TEXT,
    RESUMED_TEXT,
    SUSPENDED_TEXT,
    why_not_restarting,
)
from traincrew.plan.shared import lifecycle
from traincrew.plan.shared.model import Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.plan.jobset.policies import Failure
    from traincrew.plan.shared.lifecycle import Status

IN_PROGRESS_TEXT = ("InOrderStartupPolicyInProgress", "in order startup policy is in progress")
IN_ORDER_TEXT = ("InOrderStartupPolicyCompleted", "in order startup policy has completed")


def transitions(before: Status, after: Status) -> list[Event]:
    """Return events for conditions that have changed their status."""
    return [*_transitions(before, after), *lifecycle.advance_events(before, after)]


def _transitions(before: Status, after: Status) -> Iterator[Event]:
    for condition in after.conditions:
        if condition.is_true == before.holds(condition.type):
            continue
        told = Event("Normal", condition.reason, condition.message)
        if condition.type == lifecycle.FAILED:
            yield told._replace(type="Warning")
            yield from _restarts_no_more(after)
        elif condition.type == lifecycle.SUCCEEDED:
            if before.holds(lifecycle.RESTARTING):
                yield Event("Normal", *READY_TEXT)
            yield told
            yield from _restarts_no_more(after)
        elif condition.type == lifecycle.SUSPENDED and not after.finished:
            yield Event("Normal", *(SUSPENDED_TEXT if condition.is_true else RESUMED_TEXT))
            if condition.is_true:
                yield from _restarts_no_more(after)
        elif condition.type == lifecycle.RESTARTING and not condition.is_true:
            if not after.finished and not after.holds(lifecycle.SUSPENDED):
                yield Event("Normal", *READY_TEXT)
        elif condition.type in {IN_PROGRESS, IN_ORDER} and condition.is_true:
            yield told


def _restarts_no_more(after: Status) -> Iterator[Event]:
    """Yield the event of a condition that has another reason, if the JobSet was ever restarted."""
    if after.condition(lifecycle.RESTARTING) is not None:
        yield Event("Normal", *why_not_restarting(after))


def restart(failure: Failure) -> list[Event]:
    """Return events for a restart that begins."""
    found = [Event("Warning", failure.action, failure.message)]
    if not failure.single:
        found.insert(0, Event("Warning", failure.why, failure.message))
    return found
