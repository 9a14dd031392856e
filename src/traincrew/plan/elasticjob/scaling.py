"""Fit to the available capacity: which workers an ElasticJob gives up while unschedulable.

unschedulable too long   -> given up, the highest index first, down to minReplicas
given up some time ago   -> one of them is retried
retry is scheduled       -> that one is no longer given up, and the next one is retried
retry is unschedulable   -> its pod is deleted, and the time starts again

The only state kept between reconciles is `Fit` in the status, and a pod is deleted only after it is
stored there that it is given up. So the operator may crash anywhere, and another one can continue.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from traincrew.api.kinds.elasticjob.types import CONTAINER, MAX_REPLICAS, WORKER
from traincrew.api.meta import format_time, parse_time
from traincrew.plan.elasticjob.children import RENDEZVOUS_HOST
from traincrew.plan.elasticjob.fit import ALL_WANTED, GIVEN_UP, Fit
from traincrew.plan.shared import indexes, podrecords, pods
from traincrew.plan.shared.model import Event
from traincrew.plan.shared.replicas.places import Place
from traincrew.plan.shared.replicas.states import State

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.kinds.elasticjob.types import ElasticJobSpec, FitAvailable
    from traincrew.plan.elasticjob.observed import ObservedJob
    from traincrew.plan.shared.views import ObservedPod

_MAX_INDEXES_LENGTH = 200
"""Maximum length of a list of indexes in messages; a job may have thousands of workers."""


class Scaling(Struct, frozen=True, kw_only=True):
    """The decision of one reconcile.

    Attributes:
        fit: To be stored; None if no worker is given up.
        absent: Places that get no pod.
        released: Keys of places whose pods have been given up: their end is no failure, and the
            next pod there is no restart.
        message: How many workers are created and which are not; empty if all are.
        events: Events of the decision.
        waits: Seconds after which to requeue the job.
    """

    fit: Fit | None = None
    absent: frozenset[Place] = frozenset()
    released: frozenset[str] = frozenset()
    message: str = ""
    events: tuple[Event, ...] = ()
    waits: tuple[float, ...] = ()


def decide(
    current: ObservedJob, spec: ElasticJobSpec, stored: Fit | None, now: datetime
) -> Scaling:
    """Decide which workers are given up.

    Args:
        current: The observed state of every desired place.
        spec: The desired state.
        stored: The previous decision.
        now: For waiting times.
    """
    if spec.fit_available is None and stored is None:
        return Scaling()
    return _Decision(current, spec, stored or Fit(), now).decide(spec.fit_available)


def waits_for_host(current: ObservedJob, spec: ElasticJobSpec) -> bool:
    """Whether no more workers are created until the rendezvous host is scheduled.

    Without it they cannot train, and would occupy the capacity that it needs. In a gang, the host
    waits for the others.
    """
    return (
        spec.fit_available is not None
        and not spec.scheduling_policy.wants_gang
        and spec.hosted
        and not _has_room(current.pod(RENDEZVOUS_HOST))
    )


class _Decision:
    """One decision, step by step."""

    def __init__(
        self, current: ObservedJob, spec: ElasticJobSpec, stored: Fit, now: datetime
    ) -> None:
        self._current, self._stored, self._now = current, stored, now
        self._replicas = spec.workers.replicas
        self._kept = {RENDEZVOUS_HOST.number} if spec.hosted else set()
        self._waits_for_host = waits_for_host(current, spec)
        given = indexes.parse(stored.given_up_indexes, MAX_REPLICAS) - self._kept
        self._before = {index for index in given if index < self._replicas}
        # Those that are no longer desired count too: their pods were ended on purpose.
        self._gone = given - {stored.retry_index}
        states = list(current.training.values())
        self._ending = State.SUCCEEDED in states
        # Workers that failed for good do not train, so they do not count towards minReplicas.
        self._spare = max(0, self._replicas - states.count(State.FAILED) - spec.smallest)
        self._given = set(self._before)
        self._retried = stored.retry_index
        self._last = stored.last_given_up_time
        self._waits: list[float] = []

    def decide(self, policy: FitAvailable | None) -> Scaling:
        """Return the whole decision; without a policy no worker is given up any more."""
        new: list[int] = []
        if policy is None:
            self._given = set()
        else:
            after = timedelta(seconds=policy.after_seconds)
            found_room = self._restore()
            new = self._give_up(after)
            self._end_retry(after)
            self._retry(timedelta(seconds=policy.retry_seconds), at_once=found_room)
        return self._result(new)

    def _restore(self) -> bool:
        """Restore workers that are scheduled or needed; return whether the retry was scheduled."""
        self._given = {index for index in self._before if not _has_room(self._pod(index))}
        found = self._retried in self._before - self._given
        if self._retried not in self._given or self._ending:
            self._retried = None
        if not self._ending:  # a worker that is created now would have no others to train with
            self._given = set(sorted(self._given, reverse=True)[: self._spare])
            if self._retried not in self._given:
                self._retried = None
        return found

    def _give_up(self, after: timedelta) -> list[int]:
        waiting = {
            index: left
            for index in range(self._replicas)
            if index not in self._given | self._kept
            and (left := self._left(index, after)) is not None
        }
        over = sorted((index for index, left in waiting.items() if left <= 0), reverse=True)
        new = over[: max(0, self._spare - len(self._given))]
        self._given.update(new)
        if new:
            self._last = format_time(self._now)
        if len(self._given) < self._spare:
            self._waits += [left for left in waiting.values() if left > 0]
        return new

    def _end_retry(self, after: timedelta) -> None:
        if self._retried is None:
            return
        if self._waits_for_host and self._pod(self._retried) is None:
            self._retried = None  # its pod is not created before the host is scheduled
            return
        left = self._left(self._retried, after)
        if left is not None and left <= 0:
            self._retried, self._last = None, format_time(self._now)
        elif left is not None:
            self._waits.append(left)

    def _retry(self, after: timedelta, *, at_once: bool) -> None:
        if self._ending or self._retried is not None or not self._given:
            return
        since = parse_time(self._last) if self._last else self._now
        left = (since + after - self._now).total_seconds()
        if left > 0 and not at_once:
            self._waits.append(left)
            return
        if self._waits_for_host:
            self._waits.append(after.total_seconds())
            return
        for index in sorted(self._given & self._before):
            pod = self._pod(index)
            if pod is None or pod.metadata.deletion_timestamp is None:
                self._retried = index
                return

    def _result(self, new: list[int]) -> Scaling:
        released = frozenset(
            Place(WORKER, index).key
            for index in self._gone
            if not self._stays(Place(WORKER, index))
        )
        if not self._given:
            events = []
            if self._before:
                text = f"all {self._replicas} workers are asked for again"
                if self._replicas == 1:
                    text = "the only worker is asked for again"
                events = [Event("Normal", ALL_WANTED, text)]
            return Scaling(released=released, events=tuple(events), waits=tuple(self._waits))
        given = pods.shorten(indexes.text_of(self._given), _MAX_INDEXES_LENGTH)
        asked = self._replicas - len(self._given)
        message = (
            f"{asked} of {self._replicas} workers {_are(asked)} asked for; there is no room for"
            f" {WORKER} {given}"
        )
        if self._retried is not None:
            message += f" ({self._retried} is being tried again)"
        return Scaling(
            fit=Fit(
                given_up_indexes=indexes.text_of(self._given),
                retry_index=self._retried,
                last_given_up_time=self._last or format_time(self._now),
            ),
            absent=frozenset(
                Place(WORKER, index) for index in self._given & self._gone - {self._retried}
            ),
            released=released,
            message=message,
            events=tuple(self._given_up_events(new)),
            waits=tuple(self._waits),
        )

    def _given_up_events(self, new: list[int]) -> list[Event]:
        if not new:
            return []
        lines = []
        for index in sorted(new):
            pod = self._pod(index)
            assert pod is not None
            lines.append(
                f"{pod.metadata.name}: {pods.not_ready_reason(pod, self._now, (CONTAINER,))}"
            )
        count = len(self._given)
        text = (
            f"{count} of {self._replicas} workers {_are(count)} given up: {pods.first_few(lines)}"
        )
        return [Event("Warning", GIVEN_UP, text)]

    def _stays(self, place: Place) -> bool:
        """Whether the pod that was given up was scheduled before it was deleted.

        The next pod in its place may be scheduled before its creation is recorded; that does not
        mean that the pod that was given up was.
        """
        pod, record = self._current.pod(place), self._current.records.get(place.key)
        return (
            pod is not None
            and _has_room(pod)
            and pod.metadata.deletion_timestamp is None
            and record is not None
            and podrecords.is_of(record, pod)
        )

    def _pod(self, index: int) -> ObservedPod | None:
        return self._current.pod(Place(WORKER, index))

    def _left(self, index: int, after: timedelta) -> float | None:
        """Return the seconds until a worker has been unschedulable too long; None if it is not.

        A terminating pod is left alone.
        """
        pod = self._pod(index)
        if pod is None or pod.metadata.deletion_timestamp is not None or _has_room(pod):
            return None
        for condition in pod.status.conditions:
            if (condition.type, condition.status) == ("PodScheduled", "False"):
                if condition.reason != "Unschedulable":
                    return None  # the pod is gated on purpose, by a queue for example
                since = condition.last_transition_time or pod.metadata.creation_timestamp
                return (parse_time(since) + after - self._now).total_seconds()
        return None


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _has_room(pod: ObservedPod | None) -> bool:
    """Whether a pod was scheduled to a node, even if it has ended since."""
    return pod is not None and bool(pod.spec.node_name or pod.status.phase != "Pending")
