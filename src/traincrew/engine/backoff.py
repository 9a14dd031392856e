"""Exponential back-off with jitter; which errors are retried is decided by `Controller`."""

from __future__ import annotations

import random


class Backoff:
    """Delays that double with every failure, spread by jitter, until they are reset.

    Args:
        base: First delay, seconds.
        cap: Longest delay, seconds, before jitter.
        jitter: Each delay is multiplied by a random factor between 1 and ``1 + jitter``, so that
            clients that were disconnected together do not reconnect together.
        rng: Source of randomness.
    """

    def __init__(
        self,
        base: float,
        cap: float,
        *,
        jitter: float = 0.5,
        rng: random.Random | None = None,
    ) -> None:
        self._base = base
        self._cap = cap
        self._jitter = jitter
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self.failures = 0

    def next(self) -> float:
        """Count one more failure and return the delay before the next attempt, in seconds."""
        delay = self.delay(self.failures)
        self.failures += 1
        return delay

    def delay(self, failures: int) -> float:
        """Return the delay after this many earlier failures, in seconds."""
        # 2.0 ** 64 is far beyond any cap and still a float; larger exponents would overflow.
        delay = min(self._cap, self._base * 2.0 ** min(failures, 64))
        return delay * (1.0 + self._jitter * self._rng.random())

    def reset(self) -> None:
        """Reset the number of failures."""
        self.failures = 0
