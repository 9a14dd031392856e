"""Reconcile loops: requests in, results or exceptions out.

A request names an object, never an event. The reconciler observes the current state and moves it
towards the object's spec; whatever triggered it, and however often, the outcome is the same.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.controller.queue import LIVE, STARTUP, WorkQueue
from traincrew.engine.controller.requests import Mapper, Request
from traincrew.engine.election import LeadershipLost
from traincrew.engine.errors import AlreadyExistsError, ApiError, ConflictError
from traincrew.engine.objects import HasMetadata
from traincrew.engine.observability import Metrics, get_logger
from traincrew.engine.observability.logs import ReconcileContext, current_reconcile

if TYPE_CHECKING:
    from traincrew.engine.backoff import Backoff
    from traincrew.engine.cache import Informer

T = TypeVar("T", bound=HasMetadata)

# Seconds a worker may run before it yields to the event loop.
_TIME_SLICE = 0.002


class Result(Struct, frozen=True):
    """The outcome of a successful reconcile.

    Attributes:
        requeue_after: Seconds until the object is reconciled again, if nothing changes before.
    """

    requeue_after: float | None = None


class TerminalError(Exception):
    """A reconcile failed in a way that no retry can fix; it is counted and not retried."""


class ExpectedError(Exception):
    """A reconcile cannot do its work now, for a reason that its text says; it is retried.

    It is logged without traceback: it is no fault of the program.
    """


Reconcile = Callable[[Request], Awaitable[Result | None]]


class Controller:
    """Runs one reconcile function over the requests its watches produce.

    Args:
        name: Appears in logs and metrics.
        reconcile: Called with a request; returns when to requeue it, or raises. All errors but
            `TerminalError` are retried with back-off; conflicts and existing objects, which are
            expected, are not logged as errors.
        workers: How many requests are reconciled concurrently; never the same one twice.
        backoff: Delays between retries; 5 ms doubling up to a minute by default.
        clock: Source of time.
        metrics: Where reconciles are recorded; the manager's by default.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        workers: int = 4,
        backoff: Backoff | None = None,
        clock: Clock = SYSTEM_CLOCK,
        metrics: Metrics | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"controller {name}: workers must be at least 1, not {workers}")
        self.name = name
        self.informers: list[Informer[Any]] = []
        self._watches: list[tuple[Informer[Any], Callable[[Any], Iterable[Request]]]] = []
        self.allowed: Callable[[], bool] = lambda: True
        """Called before each reconcile; false if the manager does not lead or is about to end."""
        self._reconcile = reconcile
        self._workers = workers
        self._monotonic = clock.monotonic
        self._log = get_logger()
        self._last_errors: dict[Request, str] = {}
        self._started = 0
        self._free = 0
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.queue: WorkQueue[Request] = WorkQueue(name, backoff=backoff, clock=clock)
        self.use_metrics(metrics or Metrics())

    def use_metrics(self, metrics: Metrics) -> None:
        """Record into these metrics from now on."""
        self.metrics = metrics
        self.queue.use_metrics(metrics)
        name = self.name
        self._success = metrics.reconciles.labels(name, "success")
        self._requeue_after = metrics.reconciles.labels(name, "requeue_after")
        self._error = metrics.reconciles.labels(name, "error")
        self._terminal = metrics.reconciles.labels(name, "terminal_error")
        self._errors = metrics.reconcile_errors.labels(name)
        self._terminal_errors = metrics.terminal_errors.labels(name)
        self._time = metrics.reconcile_time.labels(name)
        self._active = metrics.active_workers.labels(name)
        metrics.max_concurrent.labels(name).set(self._workers)

    def watch(
        self,
        informer: Informer[T],
        mapper: Mapper[T] | Callable[[T], Iterable[Request]],
        *,
        priority: int = LIVE,
    ) -> None:
        """Reconcile the requests that the mapper returns for every object that changes.

        The mapper is called with the old and the new state, so that a change of owner triggers
        both owners. Objects of the initial list have a lower priority than live changes.

        Args:
            informer: The objects.
            mapper: From an object to requests.
            priority: Of requests that live changes cause.
        """
        self.informers.append(informer)
        if not isinstance(mapper, Mapper):
            mapper = Mapper(mapper)
        to_requests, unchanged = mapper.to_requests, mapper.unchanged
        self._watches.append((informer, to_requests))

        def handle(old: T | None, new: T | None) -> None:
            add = self.queue.add
            urgency = STARTUP if informer.delivering_list else priority
            requests: Collection[Request] = ()
            if new is not None:
                requests = tuple(to_requests(new))
                for request in requests:
                    add(request, priority=urgency)
            if old is not None and (new is None or not unchanged(old, new)):
                for request in to_requests(old):
                    if request not in requests:
                        add(request, priority=urgency)

        informer.add_handler(handle)

    def enqueue(self, request: Request, *, after: float = 0.0) -> None:
        """Request a reconcile, not before ``after`` seconds have passed."""
        self.queue.add(request, after=after)

    def reset(self) -> None:
        """Begin again, as if the caches had just been filled: every object has to be reconciled.

        For the time after leadership was lost. No reconcile may be running.
        """
        self.queue.clear()
        self._last_errors.clear()
        for informer, to_requests in self._watches:
            for obj in informer.store.list():
                for request in to_requests(obj):
                    self.queue.add(request, priority=STARTUP)

    async def idle(self) -> None:
        """Wait until no reconcile runs."""
        await self._idle.wait()

    async def run(self) -> None:
        """Wait for the caches this controller reads, then reconcile until cancelled."""
        for informer in self.informers:
            await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            self._started = self._free = 0
            self._start_worker(group)

    def _start_worker(self, group: asyncio.TaskGroup) -> None:
        group.create_task(self._work(group), name=f"{self.name}-{self._started}")
        self._started += 1
        self._free += 1

    async def _work(self, group: asyncio.TaskGroup) -> None:
        """Reconcile one request after the other.

        A worker that begins to work starts another one if no other is free. So one is always free,
        up to the limit, and most controllers never have all of theirs.
        """
        queue = self.queue
        slice_ends = 0.0
        while True:
            request = queue.get_nowait()
            if request is None:
                request = await queue.get()
                slice_ends = self._monotonic() + _TIME_SLICE
            elif self._monotonic() > slice_ends:
                # A reconcile that finds nothing to do never suspends; let other tasks run, too.
                await asyncio.sleep(0)
                slice_ends = self._monotonic() + _TIME_SLICE
            self._free -= 1
            if not self._free and self._started < self._workers:
                self._start_worker(group)
            if self.allowed():
                await self._reconcile_one(request)
            else:
                # Leadership or the process ends; the manager cancels us soon.
                queue.add(request, after=1.0)
            self._free += 1
            queue.done(request)

    async def _reconcile_one(self, request: Request) -> None:
        token = current_reconcile.set(
            ReconcileContext(self.name, request[0], request[1], random.getrandbits(64))
        )
        started = self._monotonic()
        self._active.value += 1.0
        self._running += 1
        self._idle.clear()
        try:
            result = await self._reconcile(request)
            self._succeeded(request, result)
        except LeadershipLost as error:
            # Stopped between two writes. The new leader will find what is left to do.
            self._log.info("reconcile stopped", error=str(error))
            self.queue.add(request, after=1.0)
        except Exception as error:  # noqa: BLE001 - counted, logged, and retried if it makes sense
            self._failed(request, error)
        finally:
            self._active.value -= 1.0
            self._running -= 1
            if not self._running:
                self._idle.set()
            self._time.observe(self._monotonic() - started)
            current_reconcile.reset(token)

    def _succeeded(self, request: Request, result: Result | None) -> None:
        self._forget(request)
        if result is None or result.requeue_after is None:
            self._success.value += 1.0
        else:
            self._requeue_after.value += 1.0
            self.queue.add(request, after=result.requeue_after)

    def _failed(self, request: Request, error: Exception) -> None:
        """Apply the retry policy; the delays are those of `WorkQueue.retry`."""
        self._errors.inc()
        if isinstance(error, TerminalError):
            self._terminal.inc()
            self._terminal_errors.inc()
            self._forget(request)
            self._log.error("reconcile failed for good", error=str(error))
            return
        self._error.inc()
        if isinstance(error, (ConflictError, AlreadyExistsError)):
            delay = self.queue.retry(request)
            self._log.info("reconcile lost a race", error=str(error), retry_in=round(delay, 3))
            return
        wait = error.retry_after if isinstance(error, ApiError) else None
        delay = self.queue.retry(request, at_least=wait or 0.0)
        self._log_failure(request, error, delay)

    def _forget(self, request: Request) -> None:
        """Clear the request's history of failures."""
        self.queue.forget(request)
        if self._last_errors:
            self._last_errors.pop(request, None)

    def _log_failure(self, request: Request, error: Exception, delay: float) -> None:
        """Log a failure: with traceback if it may be a fault of the program, and does not repeat.

        What the API server refuses is none: somebody has to create a missing object, for example.
        """
        text = f"{type(error).__name__}: {error}"
        brief = isinstance(error, ApiError | ExpectedError)
        brief = brief or self._last_errors.get(request) == text
        self._last_errors[request] = text
        self._log.error(
            "reconcile failed",
            error=text,
            retry_in=round(delay, 3),
            exc_info=None if brief else error,
        )
