"""What is urgent goes first; other requests give way while it is being sent.

Every request costs the API server time that all others wait for. So while many children of jobs are
being created, requests that nothing waits for are held back, each for a limited time. The gate only
knows how many urgent requests there are; how long something may be held back is up to its sender.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

CROWD = 32
"""More urgent requests than this at the same time are a crowd."""
_QUIET_SECONDS = 0.1
"""Between two jobs of a burst there may be a moment without any urgent request."""


class Gate:
    """Counts urgent requests, and lets others wait for their end.

    Args:
        crowd: Number of urgent requests that are not yet a crowd.
    """

    def __init__(self, *, crowd: int = CROWD) -> None:
        self._limit = crowd
        self._urgent = 0
        self._crowded = False
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._timer: asyncio.TimerHandle | None = None
        self._overdue = asyncio.Lock()
        self._calls: list[Callable[[], None]] = []

    @property
    def crowded(self) -> bool:
        """Whether a crowd of urgent requests has come, and some are still being sent."""
        return self._crowded

    def on_end_of_crowd(self, call: Callable[[], None]) -> None:
        """Add a function to be called whenever a crowd has ended."""
        self._calls.append(call)

    @contextlib.contextmanager
    def urgent(self) -> Iterator[None]:
        """Let others wait while a request waits for its turn, or for its response."""
        self._urgent += 1
        self._quiet.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._urgent > self._limit:
            self._crowded = True
        try:
            yield
        finally:
            self._urgent -= 1
            if not self._urgent:
                self._end()

    def _end(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_QUIET_SECONDS, self._quiet.set)
        if self._crowded:
            self._crowded = False
            for call in self._calls:
                call()

    @contextlib.asynccontextmanager
    async def give_way(self, due: float, hurry: asyncio.Event) -> AsyncIterator[None]:
        """Wait until nothing is urgent, and send a request then.

        What is overdue is sent all the same, but one request at a time: it is never held back for
        ever, and costs the urgent ones little.

        Args:
            due: When to wait no longer, on the event loop's clock.
            hurry: Wait no longer once this is set; then the request counts as urgent itself.
        """
        if not self._quiet.is_set() and not hurry.is_set():
            await _first(due, self._quiet, hurry)
        if self._quiet.is_set() or hurry.is_set():
            yield
            return
        async with self._overdue:
            yield


async def _first(due: float, *events: asyncio.Event) -> None:
    """Wait until one of the events is set, or the time has come."""
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        left = due - asyncio.get_running_loop().time()
        await asyncio.wait(tasks, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
