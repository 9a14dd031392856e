"""Draws what changes often: the first change at once, those soon after it together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Redraw"]


class Redraw:
    """Calls a function after changes, at most once in an interval.

    Args:
        draw: Draws the newest state.
        interval: Shortest time between two calls, in seconds.
    """

    def __init__(self, draw: Callable[[], None], interval: float) -> None:
        self._draw = draw
        self._interval = interval
        self._next: float | None = None
        """When it may be called again, in the time of the event loop."""
        self._timer: asyncio.TimerHandle | None = None

    def request(self) -> None:
        """Draw at once if the last time is long enough ago; else as soon as it is."""
        loop = asyncio.get_running_loop()
        if self._next is None or loop.time() >= self._next:
            # The event loop may be late with the timer.
            self.now()
        elif self._timer is None:
            self._timer = loop.call_at(self._next, self.now)

    def now(self) -> None:
        """Draw, whenever the last time was."""
        self.cancel()
        self._next = asyncio.get_running_loop().time() + self._interval
        self._draw()

    def flush(self) -> None:
        """Draw at once what has been requested, if it is not drawn yet."""
        if self._timer is not None:
            self.now()

    def cancel(self) -> None:
        """Do not draw what has been requested."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
