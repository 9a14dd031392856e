"""How long a Job waits before it replaces a failed pod: 10 s, doubling, at most 10 min. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from traincrew.local.controllers.pods import finished_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.engine.objects import AnyObject

FIRST = 10.0
"""Seconds after the first failure in a row (upstream `DefaultJobPodFailureBackOff`)."""
LONGEST = 600.0
"""Seconds at most (upstream `MaxJobPodFailureBackOff`)."""


class Backoff(Struct, frozen=True):
    """Failures since the last success.

    Attributes:
        failures: How many in a row.
        last_failure: When the last one was, in seconds since the epoch.
        seen: UIDs of pods that are counted here already.
    """

    failures: int = 0
    last_failure: float = 0.0
    seen: frozenset[str] = frozenset()

    def observe(
        self, succeeded: Iterable[AnyObject], failed: Iterable[AnyObject], now: float
    ) -> Backoff:
        """Count newly finished pods.

        Failures before the newest success are forgiven. Pods that say nothing about when they
        ended, ended now.
        """
        new_successes = [pod for pod in succeeded if pod.metadata.uid not in self.seen]
        new_failures = [pod for pod in failed if pod.metadata.uid not in self.seen]
        if not new_successes and not new_failures:
            return self
        last_success = max((_ended(pod, now) for pod in new_successes), default=None)
        failures, last_failure = self.failures, self.last_failure
        if last_success is not None and last_success >= last_failure:
            failures = 0
        for moment in sorted(_ended(pod, now) for pod in new_failures):
            if last_success is not None and moment < last_success:
                continue
            failures += 1
            last_failure = max(last_failure, moment)
        added = {pod.metadata.uid for pod in (*new_successes, *new_failures)}
        return Backoff(failures, last_failure, self.seen | added)

    def remaining(self, now: float) -> float:
        """Seconds until the next pod may be made; 0 if it may be made now."""
        return remaining(self.failures, self.last_failure, now)


def remaining(failures: int, last_failure: float, now: float) -> float:
    """Seconds to wait after `failures` in a row, the last of them at `last_failure`."""
    if failures <= 0:
        return 0.0
    wait = min(FIRST * 2.0 ** min(failures - 1, 10), LONGEST)
    return max(0.0, last_failure + wait - now)


def _ended(pod: AnyObject, now: float) -> float:
    moment = finished_at(pod)
    return now if moment is None else moment
