"""How long a program that has failed is left alone before it is started again.

Ten seconds, doubled with each further failure, and six minutes at most, counted from the failure:
the rule of batch Jobs (https://kubernetes.io/docs/concepts/workloads/controllers/job/, "Pod backoff
failure policy"). Two things differ, because what is lost here is time of a whole training:

- The first failure costs no time, as with containers that a kubelet restarts.
- Whoever has run for six minutes is started again at once: it cannot keep a cluster busy.

As in a Job, failures count until something has succeeded, which ends these jobs; what was evicted,
preempted or lost with its node has not failed. Everything is computed from what is stored, so
another operator waits for the same time.
"""

from __future__ import annotations

from datetime import timedelta

FIRST = timedelta(seconds=10)
LONGEST = timedelta(minutes=6)
_ENOUGH = 16
"""Doublings after which any time is longer than `LONGEST`."""


def delay(failures: int, ran: timedelta) -> timedelta:
    """Return how long to wait from a failure until the next start.

    Args:
        failures: Number of failures before this one.
        ran: How long the attempt had lasted that has failed.
    """
    if failures < 1 or ran >= LONGEST:
        return timedelta(0)
    return min(timedelta(seconds=FIRST.seconds << min(failures - 1, _ENOUGH)), LONGEST)


def words(wait: timedelta) -> str:
    """Return a delay as the end of "is restarted": `` in 20 s``, or nothing if it is at once."""
    return f" in {wait.total_seconds():.0f} s" if wait > timedelta(0) else ""


__all__ = ["FIRST", "LONGEST", "delay", "words"]
