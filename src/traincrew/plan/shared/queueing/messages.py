"""What is said of a job in a queue, with Kueue's own words, and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.plan.shared import pods
from traincrew.plan.shared.queueing import kueue

if TYPE_CHECKING:
    from collections.abc import Mapping

Document = dict[str, Any]
_UNTYPED = frozenset({"", kueue.PENDING, "PendingEvaluation", "Inadmissible"})
"""Reasons that say less than their message."""
_MISSING = f"create the queue, or write the name of another one in the label {kueue.QUEUE}"
_STOPPED = (
    "the queue admits nothing: its administrator has stopped it, or it lacks a flavor or check"
    f" (kubectl describe clusterqueues); or name another queue in the label {kueue.QUEUE}"
)
_NEVER = (
    "the queue can never hold this job: ask for fewer pods or smaller requests, or name a larger"
    f" queue in the label {kueue.QUEUE}"
)
_NO_FLAVOR = (
    "no flavor of the queue fits: compare requests, node selectors and tolerations with kubectl"
    f" describe clusterqueues, or name another queue in the label {kueue.QUEUE}"
)


def waiting(queue: str, reserved: Document | None, evicted: Document | None = None) -> str:
    """Return why a job waits in a queue.

    Args:
        queue: The LocalQueue.
        reserved: The condition that says why there is no quota; None if nothing was said yet.
        evicted: The condition that says why the job was evicted, if it was.
    """
    text = f"Waiting in queue {queue}"
    said = str((reserved or {}).get("message") or "")
    reason = str((reserved or {}).get("reason") or "")
    if evicted is not None:
        text = f"{text}, after an eviction ({evicted.get('reason', '')})"
    if not said:
        return f"{text} of Kueue"
    typed = f"{reason}: " if reason not in _UNTYPED else ""
    fix = fix_of(reason, said)
    return f"{text}: {typed}{said}" + (f"; {fix}" if fix else "")


def fix_of(reason: str, said: str) -> str:
    """Return what to do about the reason why a job has no quota; empty if waiting is enough.

    Args:
        reason: Kueue's reason.
        said: Its message.
    """
    if "doesn't exist" in said or "terminating or missing" in said:
        return _MISSING
    if "inactive" in said or "is stopped" in said:
        return _STOPPED
    if reason == "ExceedsMaxQuota" or "maximum capacity" in said:
        return _NEVER
    if reason == "NoMatchingFlavor" or "unavailable in ClusterQueue" in said:
        return _NO_FLAVOR
    return ""


def not_made(name: str) -> str:
    """Return what is said of the copy of a job whose Workload is not there."""
    return f"Waiting for Workload {name}, which MultiKueue makes on this cluster"


def evicted(queue: str, condition: Document, active: int) -> str:
    """Return why a job loses its admission."""
    text = f"Evicted from queue {queue}: {condition.get('reason', '')}: {condition.get('message')}"
    return f"{text}{_ending(active)}"


def _ending(active: int) -> str:
    return f"; {pods.being_ended(active)}" if active else ""


def deleted(name: str, active: int) -> str:
    """Return what is said of a job whose Workload was deleted."""
    return (
        f"Somebody has deleted Workload {name}: the pods are ended, and the job is queued"
        f" again{_ending(active)}"
    )


def inactive(name: str) -> str:
    """Return what is said of a job whose Workload was deactivated."""
    return (
        f"Workload {name} is not active, so the job is stopped; to queue it again: kubectl patch"
        f' {kueue.WORKLOADS} {name} --type=merge -p \'{{"spec":{{"active":true}}}}\''
    )


def finished(name: str, condition: Document) -> str:
    """Return what is said of a job whose Workload somebody else has declared finished."""
    return (
        f"Workload {name} is finished ({condition.get('reason')}: {condition.get('message')}), but"
        f" the job is not; to queue it again: kubectl delete {kueue.WORKLOADS} {name}"
    )


def foreign(name: str) -> str:
    """Return what is said of a job whose Workload would have the name of another one."""
    return (
        f"Workload {name} belongs to somebody else; to queue the job: kubectl delete"
        f" {kueue.WORKLOADS} {name}"
    )


def not_queued(queue: str, active: int) -> str:
    """Return what is said of a job that has pods and no Workload."""
    return f"The job was not admitted by queue {queue}, so its pods are ended{_ending(active)}"


def left(queue: str) -> str:
    """Return what is said of a job that leaves its queue before it is admitted."""
    return f"The job leaves queue {queue}, because its label {kueue.QUEUE} was removed"


def changed(queue: str, active: int) -> str:
    """Return what is said of a job that asks for something else than it was admitted with."""
    return (
        f"The job was changed, so its admission by queue {queue} is not valid any more: it is"
        f" queued again{_ending(active)}"
    )


def checking(queue: str, status: Mapping[str, Any]) -> str:
    """Return what is said of a job that has quota, but is not admitted yet."""
    checks = [
        f"{each.get('name')} is {each.get('state')}"
        + (f" ({each['message']})" if each.get("message") else "")
        for each in status.get("admissionChecks") or ()
        if each.get("state") != "Ready"
    ]
    text = f"Waiting in queue {queue}: quota is reserved"
    return f"{text}, admission checks: {', '.join(checks)}" if checks else text


def growing(name: str, have: int, asks: int, stated: Document | None) -> str:
    """Return what a job asks for while it runs with fewer pods, and why it waits.

    Args:
        name: The set of pods.
        have: How many of them were admitted.
        asks: How many it asks for.
        stated: The condition that says why there is no quota; None if nothing was said yet.
    """
    text = f"{have} {name} pods were admitted, and {asks} are asked for"
    said = str((stated or {}).get("message") or "")
    return f"{text}: {said}" if said else text


def unsupported(kind: str) -> str:
    """Return what is said of a job whose kind does not say what its pods are."""
    return f"{kind} cannot be queued: remove the label {kueue.QUEUE}"


def conflict(queue: str, why: str) -> str:
    """Return why a job can never run with its admission."""
    return f"The admission by queue {queue} does not fit the job: {why}; change one of them"
