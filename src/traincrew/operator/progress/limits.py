"""How often something may happen, by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from traincrew.engine.clock import Clock

_MAX_KEYS = 10_000


class RateLimit:
    """Token buckets, one for each key.

    Args:
        clock: Source of time.
        rate: How many each second.
        burst: How many at once, after a time without any.
    """

    def __init__(self, clock: Clock, *, rate: float, burst: int) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = burst
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def allows(self, key: Hashable) -> bool:
        """Return whether one more is allowed now, and count it if it is."""
        now = self._clock.monotonic()
        left, since = self._buckets.pop(key, (float(self._burst), now))
        left = min(float(self._burst), left + (now - since) * self._rate)
        allowed = left >= 1
        self._buckets[key] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _MAX_KEYS:  # the one that was used least recently is full again
            del self._buckets[next(iter(self._buckets))]
        return allowed
