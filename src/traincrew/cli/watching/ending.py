"""How a view of jobs ends: with them, or early by an interrupt or a time limit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from traincrew.cli.display.text import duration
from traincrew.cli.watching.outcome import TIMED_OUT

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from traincrew.cli.watching.interrupt import Interrupt
    from traincrew.cli.watching.live import Live

__all__ = ["Interrupted", "until_end"]

T = TypeVar("T")


class Interrupted(NamedTuple):
    """An end before that of the jobs.

    Attributes:
        cause: What ended the view, for messages: ``Ended by CAUSE``.
        code: Exit code of the command.
    """

    cause: str
    code: int


async def until_end(
    work: Coroutine[Any, Any, T],
    live: Live,
    interrupt: Interrupt,
    timeout: float | None,  # noqa: ASYNC109 - of the command, with an exit code of its own
) -> T | Interrupted:
    """Do the work of a view until it is done or ended; show how far the jobs are in that case.

    Args:
        work: Shows the jobs.
        live: The view.
        interrupt: Ends it.
        timeout: Seconds that the jobs may take, if limited; their last lines may take longer.
    """
    task = asyncio.create_task(work)
    interrupted = asyncio.create_task(interrupt.wait())
    try:
        both: set[asyncio.Task[Any]] = {task, interrupted}
        await asyncio.wait(both, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if live.view.finished:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
    finally:
        interrupted.cancel()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    live.show_summary()
    if interrupt.happened:
        return Interrupted(interrupt.name, interrupt.exit_code)
    return Interrupted(f"--timeout after {duration(timeout or 0)}", TIMED_OUT)
