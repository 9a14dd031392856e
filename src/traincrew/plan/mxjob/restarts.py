"""Decides what follows when a replica has ended before the job has.

No other role of a parameter server notices that one has died: all of them wait forever. So the
operator ends the attempt for all replicas, and starts the next one or fails the job.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from traincrew.api.kinds.mxjob.types import DEFAULT_BACKOFF_LIMIT, WORKER
from traincrew.api.meta import format_time, parse_time
from traincrew.api.reasons import Cause
from traincrew.plan.mxjob.children import heartbeat_timeout
from traincrew.plan.mxjob.observed import Failure, State, describe
from traincrew.plan.shared import failing, pods, runpolicy, stall
from traincrew.plan.shared.model import Event

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.kinds.mxjob.types import MxJobSpec
    from traincrew.plan.mxjob.children import Place
    from traincrew.plan.mxjob.observed import ObservedJob
    from traincrew.plan.mxjob.status import MxJobStatus
    from traincrew.plan.shared.views import ObservedPod

GRACE_SECONDS = 5
"""Grace period of the pods of an attempt that has failed: they can only wait for each other."""
LEAVING_SECONDS = 5.0
"""Seconds after which Jobs that are being deleted are checked again."""
_LATE = timedelta(seconds=10)
"""How much longer than its grace period a pod may take; longer on a lost node."""
_UNDELETED = timedelta(seconds=30)
"""How long garbage collection may take to delete the pods of a deleted Job."""
_ROUNDING = timedelta(seconds=2)
"""ps-lite compares whole seconds, and the operator's clock is not the node's."""


class Restart(Struct, frozen=True, kw_only=True):
    """The end of an attempt.

    Attributes:
        text: Why, and what follows.
        cause: Why the job fails; None if there is another attempt.
        counted: Whether it counts against the back-off limit.
        alone: A worker that is recreated while the others continue; None: all are restarted.
        wait: Time until replicas are created again: the back-off, or that which the scheduler needs
            to notice the loss of a worker that is recreated alone.
    """

    text: str
    cause: Cause | None = None
    counted: bool = True
    alone: Place | None = None
    wait: timedelta = timedelta(0)

    def apply(self, status: MxJobStatus, now: datetime) -> None:
        """Record the next attempt in a status, in place."""
        if self.alone is not None:
            status.recoveries = {str(self.alone.number): 1}
        else:
            status.attempt += 1
            status.recoveries = {}
        status.recreate_after = format_time(now + self.wait) if self.wait else ""
        status.failures += self.counted
        status.restarts += 1
        status.last_restart_time = format_time(now)
        status.last_restart_reason = self.text

    @property
    def event(self) -> Event:
        """The event that reports it."""
        return Event(
            "Warning", "Restarting" if self.alone is None else "WorkerRecreated", self.text
        )


def decide(
    current: ObservedJob, spec: MxJobSpec, stored: MxJobStatus, now: datetime, *, had_run: bool
) -> Restart | None:
    """Return what follows from the state of the replicas; None if all is well.

    A replica whose init container has failed is tried again like one that was killed: its program
    has not run, so nothing says that it would fail.

    Args:
        current: The replicas.
        spec: The desired state.
        stored: The status before.
        now: The time.
        had_run: Whether all replicas ran in this attempt, and the API server has confirmed which
            are missing: those were deleted by somebody.
    """
    failures = current.failures
    if had_run:
        failures += [
            Failure(
                place=replica.place,
                text=f"{describe(replica.place)} failed: Job {replica.name} was deleted",
                disrupted=True,
            )
            for replica in current.of(State.ABSENT)
            if not (stored.recreate_after and str(replica.place.number) in stored.recoveries)
        ]
    if not failures:
        return None
    first = failures[0]
    text = pods.first_few([failure.text for failure in failures])
    if first.permanent:
        return Restart(cause=Cause.PROGRAM, text=_sentence(text))
    alone = _alone(spec, stored, failures)
    again = _again(current, spec, stored, text, now, counted=not first.disrupted, alone=alone)
    if alone is None:
        return again
    # A worker that is being deleted sends heartbeats until its grace period is over.
    ending = timedelta(seconds=0 if first.at != failing.UNKNOWN else GRACE_SECONDS)
    wait = timedelta(seconds=heartbeat_timeout(spec)) + _ROUNDING + ending
    return msgspec.structs.replace(again, wait=max(again.wait, wait))


def _alone(spec: MxJobSpec, stored: MxJobStatus, failures: list[Failure]) -> Place | None:
    """Return the worker that is recreated while the others continue; None for all.

    ps-lite's scheduler (`Van::ProcessAddNodeCommandAtScheduler`) takes back one node in its life:
    with the second one it ends itself (``recovery_nodes->control.node.size() == 1``). Without
    heartbeats it takes back none.
    """
    places = {failure.place for failure in failures}
    if not (spec.recover_workers and spec.distributed) or len(places) > 1:
        return None
    (place,) = places
    if place.type != WORKER or stored.recoveries or not heartbeat_timeout(spec):
        return None
    return place


def after_stall(
    current: ObservedJob,
    spec: MxJobSpec,
    stored: MxJobStatus,
    stalled: stall.Stalled,
    now: datetime,
) -> Restart:
    """Return what follows when no replica makes progress, which counts as a failure."""
    return _again(current, spec, stored, stalled.message, now, cause=Cause.NO_PROGRESS)


def _again(
    current: ObservedJob,
    spec: MxJobSpec,
    stored: MxJobStatus,
    text: str,
    now: datetime,
    *,
    counted: bool = True,
    alone: Place | None = None,
    cause: Cause = Cause.BACKOFF_LIMIT,
) -> Restart:
    """Return another attempt, or the end of the job for this cause if there were enough."""
    limit = spec.run_policy.backoff_limit
    limit = DEFAULT_BACKOFF_LIMIT if limit is None else limit
    if counted and runpolicy.past_backoff_limit(limit, failures=stored.failures + 1):
        again = pods.quantity(stored.failures, "restart")
        return Restart(
            cause=cause,
            text=_sentence(f"{text}, after {again} (spec.runPolicy.backoffLimit: {limit})"),
        )
    wait = runpolicy.backoff(stored.failures, _lasted(stored, now)) if counted else timedelta(0)
    number = f"restart {stored.failures + 1} of {limit}" if counted else "not counted"
    what = "All replicas are restarted" if len(current.replicas) > 1 else "It is restarted"
    if alone is not None:
        what = "It is recreated"
    what = f"{what}{runpolicy.backoff_words(wait)} ({number})"
    return Restart(text=_sentence(f"{text}. {what}"), counted=counted, alone=alone, wait=wait)


def _lasted(stored: MxJobStatus, now: datetime) -> timedelta:
    """Return how long the attempt has lasted that ends now."""
    began = [time for time in (stored.start_time, stored.last_restart_time) if time]
    return now - parse_time(max(began)) if began else timedelta(0)


def seconds_to_leave(pod: ObservedPod, since: str, now: datetime) -> float:
    """Return the seconds left to wait for a pod of an earlier attempt.

    Args:
        pod: The pod, whose Job does not exist any more.
        since: When the earlier attempt was ended at the latest.
        now: The time.
    """
    if pod.finished:
        return 0.0
    if pod.metadata.deletion_timestamp is not None:  # the time at which its grace period is over
        end = parse_time(pod.metadata.deletion_timestamp) + _LATE
    else:
        end = parse_time(since) + _UNDELETED
    return max(0.0, (end - now).total_seconds())


def _sentence(text: str) -> str:
    text = text[0].upper() + text[1:]
    return text if text.endswith((".", "…")) else f"{text}."
