"""Lines of text for a list of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.cli.display.rows import aligned
from traincrew.cli.display.states import SELF_EVIDENT
from traincrew.cli.display.text import moment, plain, seconds_since

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from datetime import datetime

    from traincrew.cli.jobview.model import JobSummary

__all__ = ["age", "left_out", "table"]


def table(
    jobs: Sequence[JobSummary],
    now: datetime,
    *,
    namespaces: bool,
    without: Container[str] = (),
    phases: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the lines of a table of jobs.

    Args:
        jobs: The jobs, in the order of the lines.
        now: The time, for ages.
        namespaces: Whether to have a column of namespaces.
        without: Titles of columns that are left out.
        phases: Their phases as they are shown; their words by default.
    """
    columns = {
        **({"NAMESPACE": [job.namespace for job in jobs]} if namespaces else {}),
        "KIND": [job.kind for job in jobs],
        "NAME": [job.name for job in jobs],
        "PHASE": list(phases) or [job.phase for job in jobs],
        "READY": [f"{job.ready}/{job.desired}" for job in jobs],
        "RESTARTS": [str(job.restarts) for job in jobs],
        "AGE": [age(job.created_at, now) for job in jobs],
        **_progress(jobs),
        "REASON": [_why(job) for job in jobs],
    }
    columns = {
        title: list(map(plain, cells)) for title, cells in columns.items() if title not in without
    }
    yield from aligned([tuple(columns), *zip(*columns.values(), strict=True)])


def left_out(jobs: Sequence[JobSummary]) -> Iterator[tuple[str, ...]]:
    """Yield the titles of columns to leave out, from none to all that tell no jobs apart.

    The least important ones come first.
    """
    unique = len({(job.namespace, job.name) for job in jobs}) == len(jobs)
    titles = ["RESTARTS", *(["KIND"] if unique else []), "AGE", "REASON", "PROGRESS", "READY"]
    if not any(map(_why, jobs)):
        titles.sort(key=lambda title: title != "REASON")
    for count in range(len(titles) + 1):
        yield tuple(titles[:count])


def _progress(jobs: Sequence[JobSummary]) -> dict[str, list[str]]:
    """Return a column, if a job has reported: most clusters have none that does."""
    if all(job.percentage is None for job in jobs):
        return {}
    return {"PROGRESS": ["-" if job.percentage is None else f"{job.percentage}%" for job in jobs]}


def _why(job: JobSummary) -> str:
    if job.phase in SELF_EVIDENT:
        return job.warning
    return ": ".join(filter(None, (job.reason, job.message)))


def age(timestamp: str, now: datetime) -> str:
    """Return how long ago something was, as kubectl's AGE: ``45s``, ``12m``, ``5h``, ``3d``."""
    if moment(timestamp) is None:
        return "?"
    seconds = int(seconds_since(timestamp, now))
    for length, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
