"""Ending tasks for good: what goes on after its owner has ended uses what is closed by then."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["end_tasks"]


async def end_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until all have ended; their results and exceptions are dropped.

    Whoever is cancelled meanwhile cancels them once more, and waits all the same.

    Raises:
        asyncio.CancelledError: This was cancelled, and all have ended.
    """
    again: asyncio.CancelledError | None = None
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            again = error
    for task in tasks:
        if not task.cancelled():
            task.exception()  # otherwise asyncio logs that nobody has looked at it
    if again is not None:
        raise again
