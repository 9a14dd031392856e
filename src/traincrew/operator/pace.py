"""How soon a job may be planned again, so that planning leaves time for everything else.

Each pod that changes queues its job, and a plan costs milliseconds. One job alone is planned again
almost at once. When many change at the same time, a plan of each change would take all of the time
that their requests need, so a job waits for further changes and is planned once for all of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.engine.clock import Clock
    from traincrew.engine.controller import Request

MAX_REST = 0.5
"""Seconds that a job waits at most because others are planned."""
_FACTOR = 5.0
"""Planning takes at most a fifth of the time: for one job always, for all as far as `MAX_REST`
allows."""


class Pace:
    """Counts the time that planning takes, for all jobs of a kind.

    Args:
        clock: Source of time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recent: deque[tuple[float, float, Request]] = deque()

    def rest(self, job: Request, worked: float) -> float:
        """Return the seconds until a job may be planned again.

        Args:
            job: The job.
            worked: Seconds that it took to plan it just now.
        """
        now = self._clock.monotonic()
        while self._recent and self._recent[0][0] <= now - MAX_REST:
            self._recent.popleft()
        others = sum(seconds for _, seconds, planned in self._recent if planned != job)
        self._recent.append((now, worked, job))
        return _FACTOR * max(worked, min(MAX_REST / _FACTOR, others))
