"""The semantics of the run policy, for every kind.

A kind that delegates a part of it to another controller (the Job of a ChainerJob's master counts
its own retries and enforces its own deadline) does not use the functions for that part.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from traincrew.api.meta import parse_time
from traincrew.api.reasons import PAST_BACKOFF_LIMIT, PAST_DEADLINE
from traincrew.plan.shared.lifecycle import CREATED, RUNNING, SUSPENDED, Status

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.shared.views import ObservedPod

FIRST_BACKOFF = timedelta(seconds=10)
LONGEST_BACKOFF = timedelta(minutes=6)
_ENOUGH = 16
"""Doublings after which any time is longer than `LONGEST_BACKOFF`."""


def waiting_since(status: Status) -> datetime | None:
    """Return since when this execution has been wanted: the job's creation, or its last resumption.

    None if that is only now.
    """
    if status.holds(SUSPENDED):
        return None
    # A release of the pods is a part of the wait.
    kinds = (CREATED,) if status.gang_releases else (CREATED, SUSPENDED)
    times = [
        parse_time(condition.last_transition_time)
        for condition in map(status.condition, kinds)
        if condition is not None and condition.last_transition_time is not None
    ]
    return max(times, default=None)


def has_run(status: Status) -> bool:
    """Return whether a job has ever been running: its condition is false from the beginning."""
    created, running = status.condition(CREATED), status.condition(RUNNING)
    if created is None or running is None:
        return False
    return running.is_true or running.last_transition_time != created.last_transition_time


def time_to_live(status: Status, policy: CommonPolicy, now: datetime) -> timedelta | None:
    """Return how long to keep a finished job; zero or less: delete it now; None: forever.

    A completion time ahead of our clock only keeps the job longer.
    """
    if policy.ttl_seconds_after_finished is None or status.completion_time is None:
        return None
    end = parse_time(status.completion_time) + timedelta(seconds=policy.ttl_seconds_after_finished)
    return end - now


def time_left(status: Status, policy: CommonPolicy, now: datetime) -> timedelta | None:
    """Return how long a job may still be active; zero or less: exceeded; None: forever."""
    if policy.active_deadline_seconds is None or status.start_time is None:
        return None
    end = parse_time(status.start_time) + timedelta(seconds=policy.active_deadline_seconds)
    return end - now


def deadline_text(name: str) -> str:
    """Return the message of a job that exceeded its deadline, as in kubeflow/common."""
    return f"Job {name} has failed because it {PAST_DEADLINE}"


def past_backoff_limit(limit: int | None, *, failures: int, restarts: int = 0) -> bool:
    """Return whether a job has reached its back-off limit.

    As in the Job API, the number of failed pods may reach the limit, and the number of container
    restarts in their pods must stay below it, or be 0 if the limit is 0.

    Args:
        limit: The limit; None for none.
        failures: Number of failed pods that were, or are to be, recreated.
        restarts: Number of container restarts in the existing pods.
    """
    if limit is None:
        return False
    return failures > limit or restarts >= max(limit, 1)


def backoff(failures: int, ran: timedelta) -> timedelta:
    """Return how long a program that has failed is left alone before it is started again.

    Ten seconds, doubled with each further failure, and six minutes at most, counted from the
    failure: the rule of batch Jobs
    (https://kubernetes.io/docs/concepts/workloads/controllers/job/, "Pod backoff failure policy").
    Two things differ, because what is lost here is time of a whole training:

    - The first failure costs no time, as with containers that a kubelet restarts.
    - Whoever has run for six minutes is started again at once: it cannot keep a cluster busy.

    As in a Job, failures count until something has succeeded, which ends these jobs; what was
    evicted, preempted or lost with its node has not failed. Callers take the numbers from what is
    stored, so that another operator waits for the same time.

    Args:
        failures: Number of failures before this one.
        ran: How long the attempt had lasted that has failed.
    """
    if failures < 1 or ran >= LONGEST_BACKOFF:
        return timedelta(0)
    seconds = FIRST_BACKOFF.seconds << min(failures - 1, _ENOUGH)
    return min(timedelta(seconds=seconds), LONGEST_BACKOFF)


def backoff_words(wait: timedelta) -> str:
    """Return a back-off as the end of "is restarted": `` in 20 s``, or nothing if it is at once."""
    return f" in {wait.total_seconds():.0f} s" if wait > timedelta(0) else ""


def backoff_limit_text(name: str) -> str:
    """Return the message of a job that reached its back-off limit, as in kubeflow/common."""
    return f"Job {name} has failed because it {PAST_BACKOFF_LIMIT}"


def is_cleaned(policy: CommonPolicy, pod: ObservedPod) -> bool:
    """Return whether a pod is deleted when its job has finished."""
    if policy.clean_pod_policy == "All":
        return True
    return policy.clean_pod_policy == "Running" and pod.active
