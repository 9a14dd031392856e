"""What is marked in the curves of a job because of its pods, also if it was before anybody looked.

Pure: from the lives of pods, each mark with its time (RFC 3339).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.cli.display.text import moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traincrew.cli.page.podhistory import PodHistory, Run

__all__ = ["Marked", "marks_of_joined", "marks_of_runs"]

JOINED_SECONDS = 30.0
"""So much later than the first pod of its role is created what was not there from the start."""

Marked = tuple[str | None, str]


def marks_of_runs(place: str, runs: Sequence[Run], before: Sequence[Run] = ()) -> list[Marked]:
    """Return where a pod's program has failed, and where it was started again after another end.

    Args:
        place: The pod, in words.
        runs: Its runs.
        before: Those that were known before, whose marks were made then.
    """
    known = {run.started_at: run for run in before}
    marks: list[Marked] = []
    for number, run in enumerate(runs):
        old = known.get(run.started_at)
        failed = run.exit_code not in {None, 0} and not run.stopped
        last = runs[number - 1] if number else None
        if old is None and last is not None and not last.exit_code:
            marks.append((run.started_at, f"{place}: restart"))
        if failed and (old is None or old.exit_code is None):
            marks.append((run.ended_at, f"{place}: exit code {run.exit_code}"))
    return marks


def marks_of_joined(lives: Iterable[tuple[str, PodHistory]]) -> list[Marked]:
    """Return where pods have come later than the others: the job was scaled before.

    No object says so; later on, the change of the job's spec is seen.

    Args:
        lives: Roles and lives of the pods that are the first of their places.
    """
    first: dict[str, float] = {}
    later: dict[str, int] = {}
    for role, life in sorted(lives, key=lambda each: each[1].created_at):
        at = moment(life.created_at)
        if at is not None:
            began = first.setdefault(role, at.timestamp())
            if at.timestamp() - began > JOINED_SECONDS:
                later[life.created_at] = later.get(life.created_at, 0) + 1
    return [(when, f"+{count} pod{'' if count == 1 else 's'}") for when, count in later.items()]
