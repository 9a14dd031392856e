"""Events for people: what happened to an object, and why.

Recording never blocks and never fails: an event is put into a bounded backlog and written later,
those of one object in order. Normal events are deferred during urgent requests, unless a Warning
event of the same object follows them. A repeated event only increments the count of the first (as
in client-go's event correlator). Each object has a small budget for every reason, so that a hot
loop can overload neither the API server nor crowd out other events of that object.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import Struct

from traincrew.engine.budget import Budget
from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.errors import AlreadyExistsError, ApiError, NotFoundError
from traincrew.engine.gate import Gate
from traincrew.engine.observability import get_logger
from traincrew.engine.resources import EVENTS
from traincrew.engine.times import format_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from traincrew.engine.client import Client
    from traincrew.engine.observability import Metrics

# The limits of client-go's EventSourceObjectSpamFilter: 25 at once, then one every five minutes.
# There the budget covers all events of an object, so that the completion of a job whose workers
# were replaced often is never reported; here each reason has its own.
_REASON_BURST = 25.0
_REASON_REFILL = 1.0 / 300.0
# For all objects together; a thousand jobs that start at once produce thousands of events.
_TOTAL_BURST = 1000.0
_TOTAL_REFILL = 200.0
_MAX_BACKLOG = 10000
_MAX_SERIES = 5000
_WRITERS = 16
_ATTEMPTS = 3
_MAX_MESSAGE = 1024  # API validation
_FLUSH_TIMEOUT = 3.0
_MAX_DELAY = 10.0
"""Seconds by which an event is deferred at most; it is then written in spite of urgent requests."""
_MAX_HELD = 1000
"""Events that are deferred at most, so that all of them can be written when the process ends."""

_Key = tuple[str, ...]
T = TypeVar("T")


class Source(NamedTuple):
    """The reporter of an event.

    Attributes:
        component: ``source.component``, such as ``kubelet``.
        instance: ``source.host``: which process of that component; empty if there is only one.
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
    """Chosen before the first attempt to write it, so that a retry cannot create a second event."""
    stored: bool = False
    queued: bool = False
    urgent: bool = False
    due: float = 0.0
    """When it is deferred no longer, on the event loop's clock."""


class _Writer:
    """Writes the events of some of the objects, one after another."""

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        total: Budget,
        gate: Gate,
        clock: Clock,
        dropped: Callable[[str], None],
    ) -> None:
        self._client = client
        self._total = total
        self._gate = gate
        self._clock = clock
        self._dropped = dropped
        self.backlog: deque[_Series] = deque()
        self._ready = asyncio.Event()
        self._urgent = 0
        self._hurry = asyncio.Event()
        self._writing = asyncio.Lock()
        self._log = get_logger(component=component)
        self._stamp = 0

    def add(self, series: _Series, *, urgent: bool) -> None:
        """Queue an event, or the update of its count; it must not be in the backlog.

        An urgent one is not deferred, nor are those before it, which are written first.
        """
        series.queued, series.urgent = True, urgent
        series.due = self._clock.monotonic() + _MAX_DELAY
        self.backlog.append(series)
        if urgent:
            self._urgent += 1
            self._hurry.set()
        self._ready.set()

    def _take(self) -> _Series:
        series = self.backlog.popleft()
        series.queued = False
        self._urgent -= series.urgent
        if not self._urgent:
            self._hurry.clear()
        return series

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            while self.backlog:
                due = self.backlog[0].due
                await asyncio.sleep(self._total.reserve(self._clock.monotonic()))
                # `flush` may write what is left meanwhile.
                async with self._gate.deferred(due, self._hurry):
                    await self._write_next()

    async def flush(self) -> None:
        """Write the whole backlog now; gives up after three seconds."""
        try:
            async with asyncio.timeout(_FLUSH_TIMEOUT):
                async with self._writing:
                    pass  # wait for the write in progress in `run`
                while self.backlog:
                    await self._write_next()
        except TimeoutError:
            while self.backlog:
                self._take()
                self._dropped("stopped")

    async def _write_next(self) -> None:
        async with self._writing:
            if not self.backlog:
                return
            series = self._take()
            for attempt in range(_ATTEMPTS):
                try:
                    await self._write(series)
                except asyncio.CancelledError:
                    # Under the same name, so never twice. Only `flush` follows.
                    self.backlog.appendleft(series)
                    raise
                except ApiError as error:
                    if not error.transient:
                        # A terminating namespace refuses them; nobody would read them anyway.
                        self._log.debug("event refused", error=str(error))
                        break
                    self._log.debug("event not written", error=str(error))
                    await asyncio.sleep(0.2 * 2.0**attempt * (1.0 + random.random()))  # noqa: S311
                else:
                    return
            self._dropped("error")

    async def _write(self, series: _Series) -> None:
        namespace = series.regarding.get("namespace") or "default"
        last = format_time(series.last)
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
            # As in client-go, from the time in ns: kubectl sorts events of one second by name.
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
            "firstTimestamp": format_time(series.first),
            "lastTimestamp": last,
            "source": source,
            "reportingComponent": component,
            "reportingInstance": instance,
        }
        # If it exists, an earlier attempt succeeded, and only its response was lost.
        with contextlib.suppress(AlreadyExistsError):
            await self._client.create(EVENTS, document)
        series.stored = True


class EventRecorder:
    """Writes core/v1 Events.

    Add `run` to the manager (``manager.add_runnable(recorder.run)``). When it is cancelled, the
    backlog is still written, for three seconds at most.

    Args:
        client: The API server.
        component: The reporter; ``source.component``.
        instance: The reporting process; ``source.host``.
        gate: Defers Normal events during urgent requests; nothing is deferred by default.
        clock: Source of time, on the scale of the event loop's.
        metrics: Where dropped events are counted, if anywhere.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        instance: str = "",
        gate: Gate | None = None,
        clock: Clock = SYSTEM_CLOCK,
        metrics: Metrics | None = None,
    ) -> None:
        self._source = Source(component, instance)
        self._clock = clock
        self._metrics = metrics
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        self._budgets: OrderedDict[_Key, Budget] = OrderedDict()
        total = Budget(_TOTAL_BURST, _TOTAL_REFILL, clock.monotonic())
        gate = gate or Gate()
        self._writers = [
            _Writer(
                client,
                component,
                total=total,
                gate=gate,
                clock=clock,
                dropped=self._dropped,
            )
            for _ in range(_WRITERS)
        ]

    def reporter(self, component: str, instance: str = "") -> Reporter:
        """Return a reporter for another component, which uses this recorder."""
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
            source: The reporter; the recorder's own component by default.
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
        budget = _recent(self._budgets, about, lambda: Budget(_REASON_BURST, _REASON_REFILL, at))
        waiting = sum(len(writer.backlog) for writer in self._writers)
        if not budget.take(at):
            self._dropped("budget")
        elif waiting >= _MAX_BACKLOG:
            self._dropped("backlog")
        else:
            # Always the same writer for the same name, which is part of the event's name.
            writer = self._writers[hash(named) % _WRITERS]
            writer.add(series, urgent=type != "Normal" or waiting >= _MAX_HELD)

    async def run(self) -> None:
        """Write recorded events until cancelled; then write the rest and return."""
        try:
            async with asyncio.TaskGroup() as group:
                for writer in self._writers:
                    group.create_task(writer.run())
        finally:
            await self.flush()

    async def flush(self) -> None:
        """Write the whole backlog now; gives up after three seconds."""
        await asyncio.gather(*(writer.flush() for writer in self._writers))

    def _dropped(self, reason: str) -> None:
        if self._metrics is not None:
            self._metrics.events_dropped.inc((reason,))


class Reporter:
    """Reports events of one component through a recorder that several components share."""

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
    """Return the value for a key, creating it if needed; the least recently used is dropped."""
    found = known.get(key)
    if found is None:
        found = known[key] = make()
        if len(known) > _MAX_SERIES:
            known.popitem(last=False)
    else:
        known.move_to_end(key)
    return found


def _reference(regarding: dict[str, Any]) -> dict[str, str]:
    """Return a core/v1 ObjectReference to an object, or the reference itself."""
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
