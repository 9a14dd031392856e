"""The time of a server, which tests can move."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Clock"]


class Clock:
    """The time by which a server writes timestamps, and by which Events and tokens expire.

    Controllers, if there are any, delete finished Jobs by it; everything else has the machine's.
    It runs as the machine's does, plus what it was moved by.

    Args:
        moved: called after each move.
    """

    def __init__(self, moved: Callable[[], None]) -> None:
        self._moved = moved
        self._ahead = 0.0

    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        return time.time() + self._ahead

    def advance(self, seconds: float) -> None:
        """Move it on. Events that have expired by then are gone when this returns, Jobs soon.

        Raises:
            ValueError: the time is negative, or later than the year 9999.
        """
        if not 0 <= seconds <= 86400 * 366 * 1000:
            raise ValueError(f"seconds: 0 or more, up to a thousand years, not {seconds}")
        self._ahead += seconds
        self._moved()

    def reset(self) -> None:
        """Return to the machine's time."""
        self._ahead = 0.0
