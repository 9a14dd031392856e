"""Defers writes that can wait: while children of many jobs are being created, and statuses.

A reconcile does not block until then, or no worker would be left for the urgent jobs. It leaves the
write out, and the job is reconciled again when the burst has ended or the write is overdue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.engine.clock import Clock
    from traincrew.engine.controller import Request
    from traincrew.engine.gate import Gate

MAX_DELAY = 5.0
"""Seconds by which a write is deferred at most because of a burst."""
STATUS_INTERVAL = 1.0
"""Seconds by which a status without changed conditions is delayed, to write several at once."""
STATUS_RATE = 20.0
"""Such statuses a second, of all jobs of a kind together: the more of them wait, the longer each
does. Otherwise a slow API server would get more of them, and become slower."""
MAX_STATUS_INTERVAL = 10.0
"""Seconds by which such a status is delayed at most."""

Deferred = Literal["children", "checks", "foresight", "status"]


class Deferral:
    """Decides when a write that can wait is sent.

    Args:
        gate: Knows whether there is a burst.
        clock: Source of time.
        enqueue: Requests a reconcile.
    """

    def __init__(self, gate: Gate, clock: Clock, enqueue: Callable[[Request], None]) -> None:
        self._gate = gate
        self._clock = clock
        self._enqueue = enqueue
        self._since: dict[tuple[Request, Deferred], float] = {}
        self._differs: dict[Request, float] = {}
        gate.on_end_of_burst(self._continue)

    def delay(self, request: Request, what: Deferred) -> float:
        """Return the seconds by which to defer a write of a job; 0 if it is to be sent now."""
        key = (request, what)
        if self._gate.in_burst:
            now = self._clock.monotonic()
            left = self._since.setdefault(key, now) + MAX_DELAY - now
            if left > 0:
                return left
        self.forget(request, what)
        return 0.0

    def delay_status(self, request: Request, *, urgent: bool, patient: bool) -> float:
        """Return the seconds by which to defer the status of a job; 0 if it is to be sent now.

        Args:
            request: The job.
            urgent: Whether it does not wait for later changes.
            patient: Whether it gives way in a burst.
        """
        now = self._clock.monotonic()
        since = self._differs.setdefault(request, now)
        if not urgent:
            waiting = len(self._differs) / STATUS_RATE
            interval = min(MAX_STATUS_INTERVAL, max(STATUS_INTERVAL, waiting))
            if (left := since + interval - now) > 0:
                return left
        return self.delay(request, "status") if patient else 0.0

    def status_settled(self, request: Request) -> None:
        """Forget that the status of a job differs from the stored one: it was written."""
        self._differs.pop(request, None)

    def forget(self, request: Request, *what: Deferred) -> None:
        """Forget what was deferred: it is sent now, or the job does not exist any more."""
        for deferred in what:
            self._since.pop((request, deferred), None)

    def clear(self) -> None:
        """Forget everything that was deferred."""
        self._since.clear()
        self._differs.clear()

    def _continue(self) -> None:
        for request, _ in self._since:
            self._enqueue(request)
