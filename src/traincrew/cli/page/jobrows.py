"""One job as a row of the list: its summary, its pods by state, and the course of its metric.

Pure. All of it is in the job itself, so a list of many jobs needs no request and no right for any
of them, and each text is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from traincrew.cli.jobview.jobstate import job_state, pods_in
from traincrew.cli.jobview.model import JobSummary, summary

if TYPE_CHECKING:
    from traincrew.cli.display.objects import Job
    from traincrew.cli.jobview.kinds import JobKind
    from traincrew.cli.page.trends import Trend

__all__ = ["LONGEST_TEXT", "JobRow", "PodCounts", "pod_counts", "row_of"]

LONGEST_TEXT = 400
"""Characters of a message; the page of the job has the rest."""


class PodCounts(Struct, frozen=True):
    """How many of the pods that a job asks for are in each state, by its status.

    Attributes:
        ready: Ready.
        failed: Failed, and not replaced.
        finished: Ended well.
        waiting: Asked for, and nothing of the above.
    """

    ready: int
    failed: int
    finished: int
    waiting: int


class JobRow(Struct, frozen=True, rename="camel"):
    """A row.

    Attributes:
        job: The job; its texts are cut off.
        sign: Name of the sign of its phase.
        pods: Its pods.
        trend: The course of its main metric, as far as it was seen; None without one.
        deleted_at: When it was seen that the job was deleted (RFC 3339); None if it was not.
    """

    job: JobSummary
    sign: str
    pods: PodCounts
    trend: Trend | None = None
    deleted_at: str | None = None


def row_of(kind: JobKind, job: Job, trend: Trend | None) -> JobRow:
    """Return the row of a job.

    Args:
        kind: Its kind.
        job: The job.
        trend: The course of its main metric, if that is known.
    """
    shown = summary(kind, job)
    if len(shown.message) > LONGEST_TEXT or len(shown.warning) > LONGEST_TEXT:
        shown = structs.replace(shown, message=_cut(shown.message), warning=_cut(shown.warning))
    state = job_state(job)
    ended = shown.ended_at is not None or bool(state.end)
    pods = pod_counts(job.status.replica_statuses, shown.desired, shown.ready, ended=ended)
    return JobRow(shown, state.sign.name, pods, trend)


def pod_counts(statuses: Any, desired: int, up: int, *, ended: bool) -> PodCounts:
    """Count pods by state.

    Args:
        statuses: ``status.replicaStatuses``, a mapping or a list; anything else counts none.
        desired: How many pods the job asks for. A failed pod that has a successor is not one of
            them, so no more are counted.
        up: How many of them are ready.
        ended: Whether the job has ended: then it waits for no more.
    """
    room = max(desired, 0)
    found = []
    for count in (up, pods_in(statuses, "succeeded"), pods_in(statuses, "failed")):
        number = min(room, count)
        room -= number
        found.append(number)
    ready, finished, failed = found
    return PodCounts(ready, failed, finished, 0 if ended else room)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
