"""Fit to what there is: which workers an ElasticJob does without while there is no room for them.

no room for too long     -> given up, the highest index first, while minReplicas are left
given up, some time ago  -> one of them is asked for again
that one has room        -> it is not given up any more, and the next one is asked for
that one has no room     -> it goes, and the time begins anew

All that is known from earlier looks is `Fit` in the status, and a pod goes only when it is stored
there that it is given up. So it does not matter where an operator dies, or which one goes on.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from traincrew.api.elasticjob import WORKER
from traincrew.api.meta import format_time, parse_time
from traincrew.plan import fit, pods
from traincrew.plan.elasticjob_children import HOST, Place
from traincrew.plan.elasticjob_facts import State
from traincrew.plan.fit import Fit
from traincrew.plan.model import Event

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.api.elasticjob import ElasticJobSpec, FitAvailable
    from traincrew.plan.elasticjob_facts import Facts
    from traincrew.plan.model import PodView

_SHOWN_BYTES = 200
"""Of a list of indices; a job may have thousands of workers."""


class Fitting(Struct, frozen=True, kw_only=True):
    """What one look has decided.

    Attributes:
        fit: To be stored; None when nobody is given up.
        absent: Places that are to have no pod.
        forgotten: Keys of places whose earlier pods are not to be thought of: the next one there
            is no restart.
        words: How many are asked for and which are not; empty when all are.
        events: For users.
        waits: Seconds after which time alone may change something.
    """

    fit: Fit | None = None
    absent: frozenset[Place] = frozenset()
    forgotten: frozenset[str] = frozenset()
    words: str = ""
    events: tuple[Event, ...] = ()
    waits: tuple[float, ...] = ()


def decide(facts: Facts, spec: ElasticJobSpec, stored: Fit | None, now: datetime) -> Fitting:
    """What to do without.

    Args:
        facts: With every place the user wants.
        spec: What the user wants.
        stored: What was decided before.
        now: For what has been so for some time.
    """
    if spec.fit_available is None and stored is None:
        return Fitting()
    return _Decision(facts, spec, stored or Fit(), now).made(spec.fit_available)


def waits_for_host(facts: Facts, spec: ElasticJobSpec) -> bool:
    """Whether no more workers are to be made until the one that serves the rendezvous has room.

    Without it they cannot train, and would hold the room that it needs.
    """
    return spec.fit_available is not None and spec.hosted and not _has_room(facts.pod(HOST))


class _Decision:
    """One decision, step by step."""

    def __init__(self, facts: Facts, spec: ElasticJobSpec, stored: Fit, now: datetime) -> None:
        self._facts, self._stored, self._now = facts, stored, now
        self._replicas = spec.workers.replicas
        self._kept = {HOST.number} if spec.hosted else set()
        self._before = fit.indexes(stored.given_up_indexes, self._replicas) - self._kept
        states = list(facts.workers().values())
        self._ending = State.SUCCEEDED in states
        # Those that failed for good do not train, so they are none of the fewest that have to.
        self._spare = max(0, self._replicas - states.count(State.FAILED) - spec.smallest)
        self._given = set(self._before)
        self._retried = stored.retry_index
        self._last = stored.last_given_up_time
        self._waits: list[float] = []

    def made(self, policy: FitAvailable | None) -> Fitting:
        """The whole decision; without a policy nobody is given up any more."""
        new: list[int] = []
        if policy is None:
            self._given = set()
        else:
            after = timedelta(seconds=policy.after_seconds)
            found_room = self._take_back()
            new = self._give_up(after)
            self._end_retry(after)
            self._retry(timedelta(seconds=policy.retry_seconds), at_once=found_room)
        return self._result(new)

    def _take_back(self) -> bool:
        """Ask for those that have room or are needed; returns whether the retry has found room."""
        self._given = {index for index in self._before if not _has_room(self._pod(index))}
        found = self._retried in self._before - self._given
        if self._retried not in self._given or self._ending:
            self._retried = None
        if not self._ending:  # those that are made now would find nobody to train with
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
        for index in sorted(self._given & self._before):
            pod = self._pod(index)
            if pod is None or pod.metadata.deletion_timestamp is None:
                self._retried = index
                return

    def _result(self, new: list[int]) -> Fitting:
        gone = self._before - {self._stored.retry_index}
        forgotten = frozenset(Place(WORKER, index).key for index in gone)
        if not self._given:
            events = []
            if self._before:
                text = f"all {self._replicas} workers are asked for again"
                events = [Event("Normal", fit.ALL_WANTED, text)]
            return Fitting(forgotten=forgotten, events=tuple(events), waits=tuple(self._waits))
        indices = pods.shorten(fit.text_of(self._given), _SHOWN_BYTES)
        asked = self._replicas - len(self._given)
        words = (
            f"{asked} of {self._replicas} workers are asked for; there is no room for {WORKER}"
            f" {indices}"
        )
        if self._retried is not None:
            words += f" ({self._retried} is being tried again)"
        return Fitting(
            fit=Fit(
                given_up_indexes=fit.text_of(self._given),
                retry_index=self._retried,
                last_given_up_time=self._last or format_time(self._now),
            ),
            absent=frozenset(
                Place(WORKER, index) for index in self._given & gone - {self._retried}
            ),
            forgotten=forgotten,
            words=words,
            events=tuple(self._told(new)),
            waits=tuple(self._waits),
        )

    def _told(self, new: list[int]) -> list[Event]:
        if not new:
            return []
        lines = []
        for index in sorted(new):
            pod = self._pod(index)
            assert pod is not None
            lines.append(f"{pod.metadata.name}: {pods.trouble(pod)}")
        text = f"{len(self._given)} of {self._replicas} workers are given up: {pods.some(lines)}"
        return [Event("Warning", fit.GIVEN_UP, text)]

    def _pod(self, index: int) -> PodView | None:
        return self._facts.pod(Place(WORKER, index))

    def _left(self, index: int, after: timedelta) -> float | None:
        """Seconds until a worker has waited too long; None if it is not the scheduler it waits for.

        One that is being deleted is left alone.
        """
        pod = self._pod(index)
        if pod is None or pod.metadata.deletion_timestamp is not None or _has_room(pod):
            return None
        for condition in pod.status.conditions:
            if (condition.type, condition.status) == ("PodScheduled", "False"):
                if condition.reason != "Unschedulable":
                    return None  # it is held back on purpose, by a queue for example
                since = condition.last_transition_time or pod.metadata.creation_timestamp
                return (parse_time(since) + after - self._now).total_seconds()
        return None


def _has_room(pod: PodView | None) -> bool:
    """Whether a pod was brought onto a node, wherever it is now."""
    return pod is not None and bool(pod.spec.node_name or pod.status.phase != "Pending")
