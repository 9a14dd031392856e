"""Reconcile loops: requests in, results or exceptions out.

A request names an object, never an event. The reconciler looks at the world as it is now and moves
it towards what the object asks for; whatever triggered it, and however often, the outcome is the
same.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import Struct

from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.errors import AlreadyExistsError, ApiError, ConflictError
from traincrew.engine.lease import LeadershipLost
from traincrew.engine.logs import ReconcileContext, current_reconcile, get_logger
from traincrew.engine.metrics import Metrics
from traincrew.engine.objects import HasMetadata, controller_of
from traincrew.engine.queue import LIVE, STARTUP, WorkQueue

if TYPE_CHECKING:
    from traincrew.engine.backoff import Backoff
    from traincrew.engine.informer import Informer

T = TypeVar("T", bound=HasMetadata)

# Seconds a worker may go on before it lets the event loop turn.
_TURN = 0.002


class Request(NamedTuple):
    """The object to reconcile; ``namespace`` is empty for cluster-scoped ones."""

    namespace: str
    name: str


class Result(Struct, frozen=True):
    """How a reconcile ended well.

    Attributes:
        requeue_after: Seconds until the object is looked at again, if nothing happens before.
    """

    requeue_after: float | None = None


class TerminalError(Exception):
    """A reconcile failed in a way no retry can mend; it is counted and not retried."""


Reconcile = Callable[[Request], Awaitable[Result | None]]


class Controller:
    """Runs one reconcile function over the requests its watches produce.

    Args:
        name: Appears in logs and metrics.
        reconcile: Called with a request; returns when to look again, or raises. A conflict or an
            existing object is retried without fuss, `TerminalError` never, anything else with
            back-off.
        workers: How many requests are reconciled at once; never one twice.
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
        self.allowed: Callable[[], bool] = lambda: True
        """Asked before each reconcile; the manager says whether it leads and is not ending."""
        self._reconcile = reconcile
        self._workers = workers
        self._monotonic = clock.monotonic
        self._log = get_logger()
        self._last_errors: dict[Request, str] = {}
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

    def watch(self, informer: Informer[T], to_requests: Callable[[T], Iterable[Request]]) -> None:
        """Reconcile what ``to_requests`` names, for every object that changes.

        It is asked about the old and the new state, so that an object that changes hands wakes
        both sides. Objects of the first list are queued behind live changes.
        """
        self.informers.append(informer)
        unchanged = getattr(to_requests, "unchanged", None) or _never

        def handle(old: T | None, new: T | None) -> None:
            add = self.queue.add
            priority = STARTUP if informer.delivering_list else LIVE
            requests: Collection[Request] = ()
            if new is not None:
                requests = tuple(to_requests(new))
                for request in requests:
                    add(request, priority=priority)
            if old is not None and (new is None or not unchanged(old, new)):
                for request in to_requests(old):
                    if request not in requests:
                        add(request, priority=priority)

        informer.add_handler(handle)

    def enqueue(self, request: Request, *, after: float = 0.0) -> None:
        """Ask for a reconcile, after some seconds at least."""
        self.queue.add(request, after=after)

    async def idle(self) -> None:
        """Wait until no reconcile runs."""
        await self._idle.wait()

    async def run(self) -> None:
        """Wait for the caches this controller reads, then reconcile until cancelled."""
        for informer in self.informers:
            await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self.name}-{number}")

    async def _work(self) -> None:
        queue = self.queue
        turn_ends = 0.0
        while True:
            request = queue.get_nowait()
            if request is None:
                request = await queue.get()
                turn_ends = self._monotonic() + _TURN
            elif self._monotonic() > turn_ends:
                # A reconcile that finds nothing to do never waits; others need their turn too.
                await asyncio.sleep(0)
                turn_ends = self._monotonic() + _TURN
            if self.allowed():
                await self._reconcile_one(request)
            else:
                # Leadership ended, or everything is about to; the manager cancels us soon.
                queue.add(request, after=1.0)
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
            # Stopped between two writes. Whoever leads now will find what is left to do.
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
        """The whole retry policy."""
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
        """The request has no history of failures any more."""
        self.queue.forget(request)
        if self._last_errors:
            self._last_errors.pop(request, None)

    def _log_failure(self, request: Request, error: Exception, delay: float) -> None:
        """Log in one line what repeats, or is the server's failure; with traceback what is new."""
        text = f"{type(error).__name__}: {error}"
        passing = isinstance(error, ApiError) and error.passing
        brief = passing or self._last_errors.get(request) == text
        self._last_errors[request] = text
        self._log.error(
            "reconcile failed",
            error=text,
            retry_in=round(delay, 3),
            exc_info=None if brief else error,
        )


def _never(_old: object, _new: object) -> bool:
    return False


def _same_key(_old: object, _new: object) -> bool:
    return True


def _same_owners(old: HasMetadata, new: HasMetadata) -> bool:
    return old.metadata.owner_references is new.metadata.owner_references


def own_key(obj: HasMetadata) -> list[Request]:
    """The object itself."""
    return [Request(obj.metadata.namespace, obj.metadata.name)]


# Asked with the old and the new state before `to_requests(old)`: true if that cannot differ.
own_key.unchanged = _same_key  # type: ignore[attr-defined]


def owner_key(kind: str, group: str | None = None) -> Callable[[HasMetadata], list[Request]]:
    """The controller owner of an object, if it is of this kind.

    Args:
        kind: Such as ``Job``.
        group: API group the owner must have (empty for the core group); any by default.
    """

    def to_requests(obj: HasMetadata) -> list[Request]:
        owner = controller_of(obj)
        if owner is None or owner.kind != kind:
            return []
        if group is not None and owner.api_version.rpartition("/")[0] != group:
            return []
        return [Request(obj.metadata.namespace, owner.name)]

    to_requests.unchanged = _same_owners  # type: ignore[attr-defined]
    return to_requests
