"""Lines of text for a list of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.cli.display.text import moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from traincrew.cli.jobview.model import JobSummary

__all__ = ["age", "table"]

_SELF_EVIDENT = {"Running", "Succeeded"}


def table(jobs: Sequence[JobSummary], now: datetime, *, namespaces: bool) -> Iterator[str]:
    """Yield the lines of a table of jobs.

    Args:
        jobs: The jobs, in the order of the lines.
        now: The time, for ages.
        namespaces: Whether to have a column of namespaces.
    """
    rows = [("KIND", "NAME", "PHASE", "READY", "RESTARTS", "AGE", "REASON")]
    rows += [_row(job, now) for job in jobs]
    if namespaces:
        first = ["NAMESPACE", *(job.namespace for job in jobs)]
        rows = [(name, *row) for name, row in zip(first, rows, strict=True)]  # type: ignore[misc]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()


def _row(job: JobSummary, now: datetime) -> tuple[str, str, str, str, str, str, str]:
    why = ""
    if job.phase not in _SELF_EVIDENT:
        why = ": ".join(filter(None, (job.reason, job.message)))
    counts = f"{job.ready}/{job.desired}"
    return job.kind, job.name, job.phase, counts, str(job.restarts), age(job.created_at, now), why


def age(timestamp: str, now: datetime) -> str:
    """Return how long ago something was, as kubectl's AGE: ``45s``, ``12m``, ``5h``, ``3d``."""
    then = moment(timestamp)
    if then is None:
        return "?"
    seconds = max(0, int((now - then).total_seconds()))
    for length, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
