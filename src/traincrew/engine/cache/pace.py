"""When a reflector retries, and which of its failures are logged as warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.engine.backoff import Backoff
from traincrew.engine.errors import UnreachableError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from traincrew.engine.clock import Clock
    from traincrew.engine.observability import Logger
    from traincrew.engine.observability.metrics import Number

# A watch that ends sooner without any event has failed (client-go's "very short watch").
_GOOD_WATCH = 1.0


class Pace:
    """Three back-offs: for refused requests, for short watches, and for expired versions.

    Each is reset by what shows that its kind of failure is over: any successful response, a watch
    that lasts, a watch whose version has not expired.

    Args:
        clock: Source of time.
        rng: Source of jitter.
        log: Where failures are logged.
        errors: Counts them, if anywhere.
        on_state: Called with each failure that is logged as a warning, and with None once the
            server works again.
        longest: Longest delay in seconds, before jitter, which may double it.
    """

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        log: Logger,
        errors: Number | None,
        on_state: Callable[[Exception | None], None] | None = None,
        *,
        longest: float = 30.0,
    ) -> None:
        self._clock = clock
        self._log = log
        self._errors = errors
        self._on_state = on_state
        self._failing = False
        self._refused, self._short, self._expired = (
            Backoff(0.2, longest, jitter=1.0, rng=rng) for _ in range(3)
        )
        self.progress = False
        """Whether this attempt has received anything new."""
        self._connected_at: float | None = None
        self._last_error = ""

    def restart(self) -> None:
        """Forget all failures."""
        for backoff in (self._refused, self._short, self._expired):
            backoff.reset()
        self._last_error = ""

    def begin(self) -> None:
        """Begin another attempt."""
        self.progress = False
        self._connected_at = None

    def connected(self) -> None:
        """Record that the server has accepted the watch."""
        self._connected_at = self._clock.monotonic()
        self._works()

    def listed(self) -> None:
        """Record that a whole list has arrived, which is a successful response."""
        self._refused.reset()
        self._works()

    def _works(self) -> None:
        if self._failing:
            self._failing = False
            if self._on_state is not None:
                self._on_state(None)

    def advanced(self) -> None:
        """Record that something new has arrived, so the server works again."""
        if not self.progress:
            self.progress = True
            for backoff in (self._refused, self._short, self._expired):
                backoff.reset()
            self._last_error = ""

    def settled(self) -> bool:
        """Record that the watch has ended; return whether it was a good one."""
        if self._connected_at is None:
            return False
        self._refused.reset()
        if self._clock.monotonic() - self._connected_at >= _GOOD_WATCH:
            self._short.reset()
            self._expired.reset()
            return True
        return self.progress

    def delay(self) -> float:
        """Return the seconds until the next attempt after one was refused or ended at once."""
        return (self._refused if self._connected_at is None else self._short).next()

    def delay_expired(self) -> float:
        """Return the seconds until the next list, after a version that was too old.

        The first relist is immediate; further ones back off.
        """
        delay = self._expired.next()
        return delay if self._expired.failures > 1 else 0.0

    def failed(self, error: Exception, delay: float) -> None:
        """Count a failure, and log it unless it is the same as before."""
        if self._errors is not None:
            self._errors.inc()
        # Connections end all the time; warn only of failures that repeat without progress.
        failures = max(self._refused.failures, self._short.failures)
        quiet = isinstance(error, UnreachableError) and failures <= 1
        text = str(error)
        if quiet or text == self._last_error:
            self._log.debug("watch failed", error=text, retry_in=round(delay, 1))
        else:
            self._log.warning("watch failed", error=text, retry_in=round(delay, 1))
            self._last_error = text
            self._failing = True
            if self._on_state is not None:
                self._on_state(error)
