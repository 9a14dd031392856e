"""What the status of a job leaves to its Jobs, and to events: how another project says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.api.reasons import Cause, Reasons
from traincrew.cli.display.statuses import Condition
from traincrew.cli.jobview.jobstate import jobs_of
from traincrew.cli.jobview.why.facts import brief

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.cli.jobview.why.facts import Facts

__all__ = ["ChildFailure", "counted", "failure"]

EVENTS_SHOWN = 2
_EXITED = "ExitedWithCode"
"""An event of type Normal of training-operator, also for programs that succeed."""


class ChildFailure(NamedTuple):
    """Why a child of a job has failed, and what else is said of the failure.

    Attributes:
        cause: The cause, if a Job has failed and says it.
        evidence: Conditions of Jobs, and events about the job.
    """

    cause: Cause | None
    evidence: tuple[str, ...]


def failure(facts: Facts) -> ChildFailure:
    """Return why a job has failed of which no pod is left that could explain it."""
    for child in facts.children:
        failed = child.status.true("Failed")
        if failed is not None and child.metadata.uid != facts.job.metadata.uid:
            words = f"{failed.reason}: {brief(failed.message)}"
            quoted = f"condition Failed=True of Job {child.metadata.name}: {words}"
            return ChildFailure(Reasons().cause(failed.reason, failed.message), (quoted,))
    return ChildFailure(None, tuple(_events(facts))[:EVENTS_SHOWN])


def _events(facts: Facts) -> Iterator[str]:
    """Yield the events about the job itself that say how pods ended which are deleted since."""
    for event in reversed(facts.events):
        if event.involved_object.uid != facts.job.metadata.uid:
            continue
        exited = event.reason == _EXITED and not event.message.endswith(" 0")
        if event.type == "Warning" or exited:
            yield f"event {event.reason}: {brief(event.message)}"


def counted(facts: Facts) -> Condition | None:
    """Return what the counts of a status say that has no condition for it, if its pods run."""
    status = facts.job.status
    if status.told_phase != "Running":
        return None
    words = [
        f"{one.name} {one.ready} of {jobs_of(facts.job.spec, one.name)} Jobs ready"
        for one in sorted(status.counted_jobs, key=lambda one: one.name)
    ]
    said = ", ".join(words) or f"{status.ready} of {status.active} pods ready"
    if waits := "; ".join(_dependent(facts)):
        said = f"{said}; {waits}"
    return Condition(type="Running", status="True", reason="counted in status", message=said)


def _dependent(facts: Facts) -> Iterator[str]:
    """Yield which replicated jobs of a JobSet have not begun, because they wait for others."""
    begun = {one.name for one in facts.job.status.counted_jobs if one.active or one.succeeded}
    for each in facts.job.spec.get("replicatedJobs") or ():
        if isinstance(each, dict) and each.get("name") not in begun:
            names = [_words(one) for one in each.get("dependsOn") or () if isinstance(one, dict)]
            if names:
                yield f"{each.get('name')} waits until {' and '.join(names)}"


def _words(one: dict[str, Any]) -> str:
    return f"{one.get('name')} is {one.get('status')}"
