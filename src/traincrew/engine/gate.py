"""Defers requests that can wait while urgent ones are being sent.

Every request costs the API server time that delays all others. So while many children of jobs are
being created, requests that nothing waits for are deferred, each for a limited time. The gate only
knows how many urgent requests there are; the sender of a request decides how long it may wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

BURST = 32
"""More urgent requests than this at the same time are a burst."""
_QUIET_SECONDS = 0.1
"""Between two jobs that begin together there may be a moment without any urgent request."""


class Gate:
    """Counts urgent requests, and delays others until they have ended.

    Args:
        burst: Largest number of concurrent urgent requests that is no burst.
    """

    def __init__(self, *, burst: int = BURST) -> None:
        self._limit = burst
        self._urgent = 0
        self._in_burst = False
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._timer: asyncio.TimerHandle | None = None
        self._overdue = asyncio.Lock()
        self._calls: list[Callable[[], None]] = []

    @property
    def in_burst(self) -> bool:
        """Whether there was a burst of urgent requests, and some are still being sent."""
        return self._in_burst

    def on_end_of_burst(self, call: Callable[[], None]) -> None:
        """Add a function to be called whenever a burst has ended."""
        self._calls.append(call)

    @contextlib.contextmanager
    def urgent(self) -> Iterator[None]:
        """Delay other requests while an urgent one is queued or sent."""
        self._urgent += 1
        self._quiet.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._urgent > self._limit:
            self._in_burst = True
        try:
            yield
        finally:
            self._urgent -= 1
            if not self._urgent:
                self._end()

    def _end(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_QUIET_SECONDS, self._quiet.set)
        if self._in_burst:
            self._in_burst = False
            for call in self._calls:
                call()

    @contextlib.asynccontextmanager
    async def deferred(self, due: float, hurry: asyncio.Event) -> AsyncIterator[None]:
        """Wait until nothing is urgent, and send a request then.

        What is overdue is sent nevertheless, but one request at a time: it is not delayed forever,
        and costs the urgent ones little.

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
