"""A budget that refills: so many at once, then so many a second."""

from __future__ import annotations


class Budget:
    """A token bucket.

    Args:
        burst: Number of tokens it holds at most, and at first.
        rate: Tokens that it gets a second.
        now: Monotonic time in seconds, as in its methods.
    """

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, burst: float, rate: float, now: float) -> None:
        self._burst = burst
        self._rate = rate
        self._tokens = burst
        self._at = now

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        self._refill(now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def reserve(self, now: float) -> float:
        """Take the next token; return the seconds until it is available."""
        self._refill(now)
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate)

    def _refill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
