"""Says why jobs that were just created do not run yet, and what to do about it.

Called by `run` while it shows its jobs: it is the one who has to change them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from traincrew.cli.display.lines import Line
from traincrew.cli.display.text import plain
from traincrew.cli.errors import CommandFailed
from traincrew.cli.jobview.why import explain
from traincrew.cli.watching.gather import gather
from traincrew.engine.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.cli.terminal.records import JobRecord
    from traincrew.cli.watching.live import Live
    from traincrew.engine.client import Client

__all__ = ["explain_waiting"]

AFTER_SECONDS = 10.0
"""How long a job may take to run before it is explained, and how often that is tried."""
_PASSING = frozenset(
    {
        "deleted",
        "draining",
        "initializing",
        "just-created",
        "not-ready",
        "operator-behind",
        "restarting",
        "running",
        "slow-start",
        "starting",
        "succeeded",
        "suspended",
        "waiting-for-deletion",
        "waiting-for-peers",
    }
)
"""Causes that pass by themselves, or that the view shows as they are."""


async def explain_waiting(
    client: Client,
    live: Live,
    jobs: Sequence[tuple[str, JobRecord]],
    fixes: Mapping[str, str] | None = None,
) -> None:
    """Show an explanation of each job that does not run after a while; return when none is left.

    Args:
        client: The API server.
        live: Where to show it.
        jobs: ``KIND/NAME`` of each job, and what is observed of it.
        fixes: What to do on this cluster, by cause; others are those of `traincrew why`.
    """
    unexplained = list(jobs)
    while unexplained:
        await asyncio.sleep(AFTER_SECONDS)
        unexplained = [each for each in unexplained if _waits(each[1])]
        for each in list(unexplained):
            word, record = each
            try:
                explanation = explain((await gather(client, word, record.namespace)).facts)
            except (CommandFailed, ApiError):
                continue
            if not _waits(record):  # any more, after these requests
                continue
            if explanation.cause in _PASSING:
                continue
            unexplained.remove(each)
            fix = (fixes or {}).get(explanation.cause, explanation.fix)
            texts = [explanation.text, *([f"What to do: {fix}."] if fix else [])]
            live.show([Line(plain(text), "bad", at=live.now()) for text in texts])


def _waits(job: JobRecord) -> bool:
    return not job.has_run and job.finished is None
