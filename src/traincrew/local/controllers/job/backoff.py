"""Back-off of a Job before it replaces a failed pod: 10 s, doubling, at most 10 min. Pure."""

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
"""Maximum seconds (upstream `MaxJobPodFailureBackOff`)."""


class Backoff(Struct, frozen=True):
    """Failures since the last success.

    Attributes:
        failures: Consecutive failures.
        last_failure: Time of the last one, in seconds since the epoch.
        seen: UIDs of pods that were already counted.
    """

    failures: int = 0
    last_failure: float = 0.0
    seen: frozenset[str] = frozenset()

    def observe(
        self, succeeded: Iterable[AnyObject], failed: Iterable[AnyObject], now: float
    ) -> Backoff:
        """Count newly finished pods.

        Failures before the latest success are dropped. Pods without a finish time count as finished
        now.
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
        """Return the seconds until the next pod may be created; 0 if it may be created now."""
        return remaining(self.failures, self.last_failure, now)


def remaining(failures: int, last_failure: float, now: float) -> float:
    """Return the seconds to wait after consecutive `failures`, the last at `last_failure`."""
    if failures <= 0:
        return 0.0
    wait = min(FIRST * 2.0 ** min(failures - 1, 10), LONGEST)
    return max(0.0, last_failure + wait - now)


def _ended(pod: AnyObject, now: float) -> float:
    moment = finished_at(pod)
    return now if moment is None else moment
