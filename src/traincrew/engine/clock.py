"""Time as an argument, so that tests can simulate it.

Only readings of time are behind the protocol. Waiting is left to asyncio: a simulated event loop
(``traincrew.engine.testing.simulate``) moves its own time, and its clock reads that.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Two readings of time."""

    def monotonic(self) -> float:
        """Return monotonic seconds, on the scale that the event loop's timers use."""
        ...

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        ...


class SystemClock:
    """The machine's own time."""

    # The bare function: controllers read it several times per reconcile.
    monotonic = staticmethod(time.monotonic)

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        return datetime.now(UTC)


SYSTEM_CLOCK = SystemClock()
