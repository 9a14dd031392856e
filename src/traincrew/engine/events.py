"""Events for people: what happened to an object, and why.

Recording never blocks and never fails: an event goes into a bounded backlog and is written later,
those of one object in their order. The same event again only raises the count of the first (as
client-go's event correlator), and each object has a small budget for every reason, so that a hot
loop somewhere cannot bury the API server, nor what else is to be said of that object.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import Struct

from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.errors import AlreadyExistsError, ApiError, NotFoundError
from traincrew.engine.logs import get_logger
from traincrew.engine.resources import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from traincrew.engine.client import Client
    from traincrew.engine.metrics import Metrics

# As much as client-go's EventSourceObjectSpamFilter: 25 at once, then one every five minutes. There
# it is for everything that is said of an object, and the end of a job whose workers have come and
# gone often is never told.
_REASON_BURST = 25.0
_REASON_REFILL = 1.0 / 300.0
# For all objects together; a thousand jobs that start at once say thousands of things.
_TOTAL_BURST = 1000.0
_TOTAL_REFILL = 200.0
_MAX_BACKLOG = 10000
_MAX_SERIES = 5000
_WRITERS = 16
_ATTEMPTS = 3
_MAX_MESSAGE = 1024  # API validation
_FLUSH_TIMEOUT = 2.0

_Key = tuple[str, ...]
T = TypeVar("T")


class Source(NamedTuple):
    """Who reports an event.

    Attributes:
        component: ``source.component``, such as ``kubelet``.
        instance: ``source.host``: which process of that component; empty if there is but one.
    """

    component: str
    instance: str = ""


class _Series(Struct):
    """One event and its repetitions."""

    source: Source
    regarding: dict[str, Any]
    type: str
    reason: str
    message: str
    first: datetime
    last: datetime
    count: int = 0
    name: str = ""
    """Chosen before the first attempt to write it, so that trying again makes no second one."""
    stored: bool = False
    queued: bool = False


class _Budget:
    """A token bucket."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, burst: float, rate: float, now: float) -> None:
        self._burst = burst
        self._rate = rate
        self._tokens = burst
        self._at = now

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        self._refill(now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def reserve(self, now: float) -> float:
        """Take the next token; returns the seconds until it is there."""
        self._refill(now)
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate)

    def _refill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now


class _Writer:
    """Writes the events of some of the objects, one after another."""

    def __init__(
        self,
        client: Client,
        component: str,
        total: _Budget,
        clock: Clock,
        dropped: Callable[[str], None],
    ) -> None:
        self._client = client
        self._total = total
        self._clock = clock
        self._dropped = dropped
        self.backlog: deque[_Series] = deque()
        self._ready = asyncio.Event()
        self._writing = asyncio.Lock()
        self._log = get_logger(component=component)
        self._stamp = 0

    def add(self, series: _Series) -> None:
        """Have an event written, or its count; it must not be in the backlog."""
        series.queued = True
        self.backlog.append(series)
        self._ready.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            while self.backlog:
                await asyncio.sleep(self._total.reserve(self._clock.monotonic()))
                await self._write_next()

    async def flush(self) -> None:
        """Write the whole backlog now; gives up after two seconds."""
        try:
            async with asyncio.timeout(_FLUSH_TIMEOUT):
                async with self._writing:
                    pass  # what `run` is writing at this moment
                while self.backlog:
                    await self._write_next()
        except TimeoutError:
            for _ in self.backlog:
                self._dropped("stopped")
            self.backlog.clear()

    async def _write_next(self) -> None:
        async with self._writing:
            if not self.backlog:
                return
            series = self.backlog.popleft()
            series.queued = False
            for attempt in range(_ATTEMPTS):
                try:
                    await self._write(series)
                except asyncio.CancelledError:
                    self.backlog.appendleft(series)  # under the same name, so never twice
                    raise
                except ApiError as error:
                    if not error.passing:
                        # A namespace on its way out refuses them; nobody would read them anyway.
                        self._log.debug("event refused", error=str(error))
                        break
                    self._log.debug("event not written", error=str(error))
                    await asyncio.sleep(0.2 * 2.0**attempt * (1.0 + random.random()))  # noqa: S311
                else:
                    return
            self._dropped("error")

    async def _write(self, series: _Series) -> None:
        namespace = series.regarding.get("namespace") or "default"
        last = _time(series.last)
        if series.stored:
            patch = {"count": series.count, "lastTimestamp": last}
            try:
                await self._client.patch(EVENTS, series.name, namespace, patch=patch)
            except NotFoundError:
                series.name, series.stored = "", False  # events expire; start a new one
                series.count = 1
                series.first = series.last
            else:
                return
        if not series.name:
            # As client-go's, from the time in ns: of one second, kubectl shows events by name.
            now = int(self._clock.now().timestamp() * 1e6) * 1000
            self._stamp = max(self._stamp + 1, now)
            unique = f".{self._stamp:016x}"
            series.name = series.regarding["name"][: 253 - len(unique)] + unique
        component, instance = series.source
        source = {"component": component} | ({"host": instance} if instance else {})
        document = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": namespace},
            "involvedObject": series.regarding,
            "type": series.type,
            "reason": series.reason,
            "message": series.message,
            "count": series.count,
            "firstTimestamp": _time(series.first),
            "lastTimestamp": last,
            "source": source,
            "reportingComponent": component,
            "reportingInstance": instance,
        }
        # That it exists means that an earlier attempt got through, and only its answer was lost.
        with contextlib.suppress(AlreadyExistsError):
            await self._client.create(EVENTS, document)
        series.stored = True


class EventRecorder:
    """Writes core/v1 Events.

    Run `run` alongside (``manager.add_runnable(recorder.run)``); when it is cancelled, what is in
    the backlog is still written, for two seconds at most.

    Args:
        client: The API server.
        component: Who reports; ``source.component``.
        instance: Which process reports; ``source.host``.
        clock: Source of time.
        metrics: Where dropped events are counted, if anywhere.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        instance: str = "",
        clock: Clock = SYSTEM_CLOCK,
        metrics: Metrics | None = None,
    ) -> None:
        self._source = Source(component, instance)
        self._clock = clock
        self._metrics = metrics
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        self._budgets: OrderedDict[_Key, _Budget] = OrderedDict()
        total = _Budget(_TOTAL_BURST, _TOTAL_REFILL, clock.monotonic())
        self._writers = [
            _Writer(client, component, total, clock, self._dropped) for _ in range(_WRITERS)
        ]

    def reporter(self, component: str, instance: str = "") -> Reporter:
        """Somebody else who reports through this recorder."""
        return Reporter(self, Source(component, instance))

    def event(
        self,
        regarding: dict[str, Any],
        type: str,  # noqa: A002 - the field's name
        reason: str,
        message: str,
        *,
        source: Source | None = None,
    ) -> None:
        """Record that something happened; returns at once and never raises.

        Args:
            regarding: The object, or an object reference (``kind``, ``namespace``, ``name``,
                ``uid``, ``apiVersion``, optionally ``fieldPath``).
            type: ``Normal`` or ``Warning``.
            reason: CamelCase, for machines.
            message: For people; cut after 1024 characters.
            source: Who reports it; the recorder's own component by default.
        """
        source = source or self._source
        reference = _reference(regarding)
        if len(message) > _MAX_MESSAGE:
            message = message[: _MAX_MESSAGE - 3] + "..."
        named = (reference.get("namespace", ""), reference["name"])
        identity = reference.get("uid", "") + reference.get("fieldPath", "")
        about = (reference["kind"], *named, identity, type, reason)
        key = (*about, message, *source)
        now = self._clock.now()
        series = _recent(
            self._series,
            key,
            lambda: _Series(source, reference, type, reason, message, now, now),
        )
        series.count += 1
        series.last = now
        if series.queued:
            return
        at = self._clock.monotonic()
        budget = _recent(self._budgets, about, lambda: _Budget(_REASON_BURST, _REASON_REFILL, at))
        if not budget.take(at):
            self._dropped("budget")
        elif sum(len(writer.backlog) for writer in self._writers) >= _MAX_BACKLOG:
            self._dropped("backlog")
        else:
            # Always the same for what has the same name: it is part of that of the event.
            self._writers[hash(named) % _WRITERS].add(series)

    async def run(self) -> None:
        """Write what is recorded until cancelled; then write the rest and return."""
        try:
            async with asyncio.TaskGroup() as group:
                for writer in self._writers:
                    group.create_task(writer.run())
        finally:
            await self.flush()

    async def flush(self) -> None:
        """Write the whole backlog now; gives up after two seconds."""
        await asyncio.gather(*(writer.flush() for writer in self._writers))

    def _dropped(self, reason: str) -> None:
        if self._metrics is not None:
            self._metrics.events_dropped.inc((reason,))


class Reporter:
    """Reports events as one component, through the recorder of a process that has several."""

    def __init__(self, recorder: EventRecorder, source: Source) -> None:
        self._recorder = recorder
        self._source = source

    def event(
        self,
        regarding: dict[str, Any],
        type: str,  # noqa: A002 - the field's name
        reason: str,
        message: str,
    ) -> None:
        """Record that something happened, as `EventRecorder.event`."""
        self._recorder.event(regarding, type, reason, message, source=self._source)


def _recent(known: OrderedDict[_Key, T], key: _Key, make: Callable[[], T]) -> T:
    """What is known under a key, or made now; what is not asked for is forgotten in the end."""
    found = known.get(key)
    if found is None:
        found = known[key] = make()
        if len(known) > _MAX_SERIES:
            known.popitem(last=False)
    else:
        known.move_to_end(key)
    return found


def _reference(regarding: dict[str, Any]) -> dict[str, str]:
    """A core/v1 ObjectReference to an object, or the reference itself."""
    metadata = regarding.get("metadata", regarding)
    reference = {
        "apiVersion": regarding.get("apiVersion"),
        "kind": regarding.get("kind") or "",
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name") or "",
        "uid": metadata.get("uid"),
        "resourceVersion": metadata.get("resourceVersion"),
        "fieldPath": regarding.get("fieldPath"),
    }
    return {key: str(value) for key, value in reference.items() if value is not None}


def _time(moment: datetime) -> str:
    """RFC 3339 in seconds, as ``metav1.Time``."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
