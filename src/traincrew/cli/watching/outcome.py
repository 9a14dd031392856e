"""The exit code of `traincrew run`.

Besides those decided here: 2 for invalid input (`cli.errors.BadInput`), 128 + N for signal N
(`interrupt`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.cli.terminal.view import TerminalView

TIMED_OUT = 124
"""The jobs did not finish within ``--timeout``."""


def exit_code(view: TerminalView) -> int:
    """Return 0 if all jobs succeeded, the exit code of the program that failed one, or 1."""
    for job in view.jobs:
        if job.outcome is None or not job.outcome.succeeded:
            pod = view.failing_pod(job)
            return pod.failure.exit_code if pod is not None and pod.failure is not None else 1
    return 0


def with_outputs(code: int, *, lost: bool) -> int:
    """Return the exit code of a run, given whether an ``--output`` could not be saved."""
    return code or int(lost)
