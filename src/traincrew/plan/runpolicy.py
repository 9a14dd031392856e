"""What the run policy means, for every kind.

A kind that leaves a part of it to another controller (the Job of a ChainerJob's master counts its
own retries and keeps its own deadline) does not ask here about that part.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from traincrew.api.meta import parse_time
from traincrew.plan.lifecycle import CREATED, SUSPENDED, Outcome, Status

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.model import PodView

JOB_FAILED = "JobFailed"
"""Reason of a job that its run policy has ended, as in kubeflow/common."""


def waiting_since(status: Status) -> datetime | None:
    """Since when this execution has been wanted: the job's creation, or its last resumption.

    None when it is only wanted from now on.
    """
    if status.holds(SUSPENDED):
        return None
    times = [
        parse_time(condition.last_transition_time)
        for condition in (status.condition(CREATED), status.condition(SUSPENDED))
        if condition is not None and condition.last_transition_time is not None
    ]
    return max(times, default=None)


def time_to_live(status: Status, policy: CommonPolicy, now: datetime) -> timedelta | None:
    """How long a finished job may stay; zero or less: delete it now; None: for ever.

    A completion time ahead of our clock only makes the job stay longer.
    """
    if policy.ttl_seconds_after_finished is None or status.completion_time is None:
        return None
    end = parse_time(status.completion_time) + timedelta(seconds=policy.ttl_seconds_after_finished)
    return end - now


def time_left(status: Status, policy: CommonPolicy, now: datetime) -> timedelta | None:
    """How long a job may still be active; zero or less: it was too long; None: for ever."""
    if policy.active_deadline_seconds is None or status.start_time is None:
        return None
    end = parse_time(status.start_time) + timedelta(seconds=policy.active_deadline_seconds)
    return end - now


def too_long(name: str) -> Outcome:
    """The end of a job that was active for too long."""
    text = f"Job {name} has failed because it was active longer than specified deadline"
    return Outcome(succeeded=False, reason=JOB_FAILED, message=text)


def past_backoff_limit(policy: CommonPolicy, *, failures: int, restarts: int) -> bool:
    """Whether a job has been tried often enough.

    As in the Job API pods may fail as often as the limit says, and containers may be restarted in
    their pods less often than it says, or not at all if it is 0.

    Args:
        policy: With the limit; without one there is none.
        failures: Pods that failed and were, or are to be, made again.
        restarts: Restarts of containers in the pods there are.
    """
    limit = policy.backoff_limit
    if limit is None:
        return False
    return failures > limit or restarts >= max(limit, 1)


def too_often(name: str) -> Outcome:
    """The end of a job that was tried often enough."""
    text = f"Job {name} has failed because it has reached the specified backoff limit"
    return Outcome(succeeded=False, reason=JOB_FAILED, message=text)


def is_cleaned(policy: CommonPolicy, pod: PodView) -> bool:
    """Whether a pod goes when its job has finished."""
    if policy.clean_pod_policy == "All":
        return True
    return policy.clean_pod_policy == "Running" and pod.active
