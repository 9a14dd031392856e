"""What a Workload of Kueue says of its job: for the operator, and for views of any queued job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.api.reasons import QUEUE_EVICTED, QUEUE_PENDING, QUEUE_STOPPED
from traincrew.plan.shared.queueing import kueue, messages

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Standing", "Stated", "condition", "holds", "standing", "without_quota"]


class Stated(NamedTuple):
    """A Workload as its API has it: its name, the queue of its job, and both of its parts."""

    name: str
    queue: str
    spec: Mapping[str, Any]
    status: Mapping[str, Any]


class Standing(NamedTuple):
    """Why a job is held: one of `traincrew.api.reasons.QUEUE_REASONS`, and a text."""

    reason: str
    text: str


def condition(status: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    """Return a condition, whatever it says; None if there is none."""
    found = status.get("conditions") or ()
    return next((each for each in found if each.get("type") == kind), None)


def holds(status: Mapping[str, Any], kind: str) -> bool:
    """Return whether a condition is true."""
    return (condition(status, kind) or {}).get("status") == "True"


def without_quota(found: Stated, active: int) -> Standing:
    """Return why a job whose Workload has no quota is held.

    Args:
        found: The Workload.
        active: How many pods of the job hold resources.
    """
    if found.spec.get("active") is False:
        return Standing(QUEUE_STOPPED, messages.inactive(found.name))
    evicted = condition(found.status, kueue.EVICTED)
    is_evicted = holds(found.status, kueue.EVICTED)
    text = messages.waiting(
        found.queue, condition(found.status, kueue.QUOTA_RESERVED), evicted if is_evicted else None
    )
    if at := (found.status.get("requeueState") or {}).get("requeueAt"):
        text = f"{text}; not before {at}"
    return Standing(QUEUE_EVICTED if is_evicted and active else QUEUE_PENDING, text)


def standing(found: Stated, active: int) -> Standing | None:
    """Return why a job is held; None if it is admitted, or finished.

    Args:
        found: The Workload.
        active: How many pods of the job hold resources.
    """
    if holds(found.status, kueue.FINISHED):
        return None
    if not holds(found.status, kueue.QUOTA_RESERVED):
        return without_quota(found, active)
    if holds(found.status, kueue.EVICTED):
        evicted = condition(found.status, kueue.EVICTED) or {}
        reason = QUEUE_STOPPED if found.spec.get("active") is False else QUEUE_EVICTED
        return Standing(reason, messages.evicted(found.queue, evicted, active))
    if not holds(found.status, kueue.ADMITTED):
        return Standing(QUEUE_PENDING, messages.checking(found.queue, found.status))
    return None
