"""The work queue of a controller.

A key is in at most one place: ready, delayed, or with a worker. Adding a key that is with a worker
marks it dirty, and it becomes ready again when the worker is done. So a key is never processed
twice at the same time, and no change is ever lost.

A key that is already waiting keeps the earlier of two deadlines and the higher of two priorities.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from msgspec import Struct

from traincrew.engine.backoff import Backoff
from traincrew.engine.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from collections.abc import Hashable

    from traincrew.engine.observability import Metrics
    from traincrew.engine.observability.metrics import Distribution, Number

K = TypeVar("K", bound="Hashable")

LIVE = 0
"""Priority of work caused by a live change."""

FOLLOWING = 10
"""Priority of work caused by a live change of a child: what has begun is followed first. When many
objects are created at once, all workers wait for the creates of children, and the next one that is
free would begin with yet another object, while nobody sees that the first ones run."""

STARTUP = -100
"""Priority of work caused by the initial list (like controller-runtime's LowPriority)."""


class _Entry(Struct, Generic[K], gc=False):
    """The state of a waiting key. ``ready_at`` is ``None`` once it is ready."""

    key: K
    priority: int
    ready_at: float | None
    added_at: float


class _Work(NamedTuple):
    """A key that is with a worker."""

    since: float
    priority: int


class WorkQueue(Generic[K]):
    """Keys to work on, deduplicated, by priority and deadline.

    Args:
        name: Label of the metrics.
        backoff: Delays of `retry`; 5 ms doubling up to a minute by default.
        clock: Source of time.
        metrics: Where depth, waits and work are recorded, if anywhere.
    """

    def __init__(
        self,
        name: str = "",
        *,
        backoff: Backoff | None = None,
        clock: Clock = SYSTEM_CLOCK,
        metrics: Metrics | None = None,
    ) -> None:
        self._monotonic = clock.monotonic
        self._backoff = backoff or Backoff(0.005, 60.0)
        self._failures: dict[K, int] = {}
        self._waiting: dict[K, _Entry[K]] = {}
        # These contain stale items, too; the entry in `_waiting` is authoritative.
        self._ready: dict[int, deque[_Entry[K]]] = {}
        self._levels: list[int] = []  # the keys of `_ready`, highest first
        self._delayed: list[tuple[float, int, _Entry[K]]] = []
        self._ready_count = 0
        self._working: dict[K, _Work] = {}
        self._order = itertools.count()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._name = name
        self._adds: Number | None = None
        self._retries: Number | None = None
        self._wait: Distribution | None = None
        self._work: Distribution | None = None
        if metrics is not None:
            self.use_metrics(metrics)

    def use_metrics(self, metrics: Metrics) -> None:
        """Record into these metrics from now on."""
        name = self._name
        self._adds = metrics.queue_adds.labels(name)
        self._retries = metrics.queue_retries.labels(name)
        self._wait = metrics.queue_wait.labels(name)
        self._work = metrics.queue_work.labels(name)
        metrics.queue_depth.compute((name,), lambda: float(self._ready_count))
        metrics.queue_unfinished.compute((name,), self._unfinished)
        metrics.queue_longest.compute((name,), self._longest)

    def __len__(self) -> int:
        """Return the number of ready keys, without delayed ones and those with a worker."""
        return self._ready_count

    @property
    def pending(self) -> int:
        """Keys that are ready or delayed."""
        return len(self._waiting)

    def add(self, key: K, *, priority: int | None = None, after: float = 0.0) -> None:
        """Queue a key.

        Args:
            key: What to work on.
            priority: Keys with higher values come first. By default `LIVE`; a key that is with a
                worker keeps a higher one.
            after: Minimum delay in seconds, unless the key is added again with a shorter one.
        """
        now = self._monotonic()
        if priority is None:
            work = self._working.get(key)
            priority = LIVE if work is None else max(LIVE, work.priority)
        if self._adds is not None:
            self._adds.value += 1.0
        ready_at = now + after if after > 0 else None
        entry = self._waiting.get(key)
        if entry is None:
            entry = self._waiting[key] = _Entry(key, priority, ready_at, now)
            if ready_at is None:
                self._make_ready(entry, now)
            else:
                self._delay(entry, ready_at)
            return
        raised = priority > entry.priority
        if raised:
            entry.priority = priority
        if entry.ready_at is None:
            if raised and key not in self._working:
                self._line(priority).append(entry)
        elif ready_at is None:
            self._make_ready(entry, now)
        elif ready_at < entry.ready_at:
            self._delay(entry, ready_at)

    def retry(self, key: K, *, priority: int | None = None, at_least: float = 0.0) -> float:
        """Queue a key after its own back-off; return the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if self._retries is not None:
            self._retries.value += 1.0
        delay = max(self._backoff.delay(failures), at_least)
        self.add(key, priority=priority, after=delay)
        return delay

    def failures(self, key: K) -> int:
        """Return how often the key was retried since the last `forget`."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Reset the key's back-off."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Wait for a ready key; the caller must call `done` with it."""
        while True:
            key = self.get_nowait()
            if key is not None:
                return key
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            self._arm()
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()  # pass the wake-up on to another getter
                raise
            finally:
                if getter in self._getters:
                    self._getters.remove(getter)

    def get_nowait(self) -> K | None:
        """Return a ready key, or ``None``; the caller must call `done` with it."""
        now = self._monotonic()
        if self._delayed:
            self._promote(now)
        for priority in self._levels:
            line = self._ready[priority]
            while line:
                entry = line.popleft()
                key = entry.key
                if (
                    self._waiting.get(key) is not entry
                    or entry.ready_at is not None
                    or entry.priority != priority
                ):
                    continue
                del self._waiting[key]
                self._ready_count -= 1
                self._working[key] = _Work(now, priority)
                if self._wait is not None:
                    self._wait.observe(now - entry.added_at)
                return key
        return None

    def done(self, key: K) -> None:
        """Mark a key as processed; if it was added meanwhile, it becomes ready again."""
        now = self._monotonic()
        work = self._working.pop(key)
        if self._work is not None:
            self._work.observe(now - work.since)
        entry = self._waiting.get(key)
        if entry is not None and entry.ready_at is None:
            self._push_ready(entry)

    def clear(self) -> None:
        """Drop all keys and their back-offs, also of keys that are with a worker.

        No worker may be running: those that wait in `get` would not be woken.
        """
        self._failures.clear()
        self._waiting.clear()
        self._ready.clear()
        self._levels.clear()
        self._delayed.clear()
        self._working.clear()
        self._ready_count = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _make_ready(self, entry: _Entry[K], now: float) -> None:
        entry.ready_at = None
        entry.added_at = now
        if entry.key not in self._working:
            self._push_ready(entry)

    def _push_ready(self, entry: _Entry[K]) -> None:
        self._line(entry.priority).append(entry)
        self._ready_count += 1
        if self._getters:
            self._wake()

    def _line(self, priority: int) -> deque[_Entry[K]]:
        line = self._ready.get(priority)
        if line is None:
            line = self._ready[priority] = deque()
            self._levels = sorted(self._ready, reverse=True)
        return line

    def _delay(self, entry: _Entry[K], ready_at: float) -> None:
        entry.ready_at = ready_at
        heapq.heappush(self._delayed, (ready_at, next(self._order), entry))
        self._arm()

    def _promote(self, now: float) -> None:
        """Make the keys ready that are due."""
        delayed = self._delayed
        while delayed:
            ready_at, _, entry = delayed[0]
            stale = self._waiting.get(entry.key) is not entry or entry.ready_at != ready_at
            if not stale and ready_at > now:
                return
            heapq.heappop(delayed)
            if not stale:
                self._make_ready(entry, now)

    def _arm(self) -> None:
        """Set the timer to the earliest deadline, if a worker is waiting."""
        if not self._delayed or not self._getters:
            return
        ready_at = self._delayed[0][0]
        if self._timer is not None:
            if self._timer_at <= ready_at:
                return
            self._timer.cancel()
        self._timer_at = ready_at
        delay = max(0.0, ready_at - self._monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self._due)

    def _due(self) -> None:
        self._timer = None
        self._promote(self._monotonic())
        self._arm()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _unfinished(self) -> float:
        now = self._monotonic()
        return sum(now - work.since for work in self._working.values())

    def _longest(self) -> float:
        now = self._monotonic()
        return max((now - work.since for work in self._working.values()), default=0.0)
