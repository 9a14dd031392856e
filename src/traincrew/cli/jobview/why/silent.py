"""A job that runs, but whose programs write nothing any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.cli.display.quiet import silence_of
from traincrew.cli.display.text import moment
from traincrew.cli.jobview.why.facts import Explanation

if TYPE_CHECKING:
    from traincrew.cli.jobview.why.facts import Facts

__all__ = ["silent"]


def silent(facts: Facts) -> Explanation | None:
    """Explain a job of which no pod has written a line for much longer than usual."""
    progress = facts.job.status.progress
    reported = moment(progress.last_update_time) if progress is not None else None
    found = silence_of(
        list(facts.outputs.values()),
        facts.now.timestamp(),
        reported.timestamp() if reported is not None else None,
    )
    if found is None:
        return None
    name = max(facts.outputs, key=lambda each: facts.outputs[each].last())
    return Explanation(
        cause="no-output",
        text=f"{facts.title} is running, but has written {found.words()}. It may hang, or do"
        " something that takes long.",
        evidence=(f"the last line of pod {name} was written at {facts.outputs[name].newest}",),
        fix=f"look at the end of its log: traincrew logs {facts.job.metadata.name} --tail 20; with"
        " runPolicy.progressDeadlineSeconds a job that hangs is ended and tried again",
    )
