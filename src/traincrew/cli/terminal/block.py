"""What the block at the bottom of a terminal says of each job: its roles, and how far it is.

Pure: the view in, rows out; `traincrew.cli.display.rows` knows about widths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.cli.display.rows import GAP, Row
from traincrew.cli.display.states import NOT_SEEN
from traincrew.cli.display.text import clock
from traincrew.cli.jobview.pods import by_role, is_running, kind_of
from traincrew.cli.terminal.progressline import progress_line

if TYPE_CHECKING:
    from traincrew.cli.terminal.records import JobRecord
    from traincrew.cli.terminal.view import TerminalView

__all__ = ["block"]


def block(view: TerminalView, now: float) -> tuple[Row, ...]:
    """Return the rows for the jobs that have not ended; for a single job also after its end."""
    rows = []
    for job in view.jobs:
        if job.finished is not None and len(view.jobs) > 1:
            continue
        rows.append(_headline(view, job, now))
        if job.finished is None:
            found = progress_line(job, view.reading_of(job), now, view.silence_of(job, now))
            if words := found.words():
                # As wide at 3% as at 100%.
                first = words[0] if found.done is None else words[0].rjust(len("100%"))
                rows.append(Row(words=(first, *words[1:]), done=found.done))
    if view.pulling and not any(is_running(each.known) for each in view.pods.values()):
        # Without the registry, so that the progress fits into 80 columns.
        image, message = next(reversed(view.pulling.items()))
        rows.insert(0, Row(f"{image.rpartition('/')[2]}: {message}"))
    return tuple(rows)


def _headline(view: TerminalView, job: JobRecord, now: float) -> Row:
    elapsed = clock((job.finished or now) - job.started)
    roles = _roles(view, job) if view.pods_known else {}
    endings = []
    if roles:
        running, wanted = (sum(count) for count in zip(*roles.values(), strict=True))
        endings.append(GAP.join(f"{name} {up}/{all_}" for name, (up, all_) in roles.items()))
        endings += [f"{running}/{wanted} running", f"{running}/{wanted}"]
    words = job.phase or NOT_SEEN
    if job.state.not_advancing and job.finished is None:
        words += ", warning"
    return Row(job.name, (words, elapsed), tuple(endings), sign=job.sign)


def _roles(view: TerminalView, job: JobRecord) -> dict[str, tuple[int, int]]:
    """Return for each role how many pods run, and how many the job asks for."""
    if job.job is None:
        return {}
    pods = [record.known for record in view.pods_of(job)]
    found = by_role(kind_of(job.job), job.job, pods, view.workloads.values())
    return {
        name: (sum(is_running(one) for _, one in role.pods), role.desired)
        for name, role in found.items()
    }
