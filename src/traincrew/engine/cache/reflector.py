"""Keep a local copy of one collection in step with the server's.

The reflector lists the current objects (a streamed list where the server supports it, KEP-3157,
else a paged list) and then watches for changes. After any failure it retries with back-off; it
ends only when it is cancelled. A consumer always sees a consistent sequence: objects deleted while
the connection was down are reported as deleted after the next list.

The behaviour is client-go's, plus what its users learnt: bytes are split on newlines only (an
annotation may contain U+0085 or U+2028 raw), lines may be long (`engine.client.bounds`), silence
longer than a bookmark interval means a dead connection, and every chunk yields to the other tasks,
because reading buffered data does not suspend.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw

from traincrew.engine.cache.pace import Pace
from traincrew.engine.cache.watchlines import (
    describe,
    status_error,
    undecoded,
    version_of,
)
from traincrew.engine.client import MAX_OBJECTS, Pages, line_batches
from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.errors import (
    ApiError,
    BadAnswerError,
    BadRequestError,
    ConfigError,
    GoneError,
    InvalidError,
    UnreachableError,
)
from traincrew.engine.objects import HasMetadata
from traincrew.engine.observability import get_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from traincrew.engine.cache.store import Key
    from traincrew.engine.cache.views import ListMeta, ViewDecoder
    from traincrew.engine.client import Client
    from traincrew.engine.observability import Metrics
    from traincrew.engine.resources import Resource

T = TypeVar("T", bound=HasMetadata)

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_PAGE = 500
# Servers send a bookmark about once a minute (KEP-956).
_SILENCE = 70.0
# A server that knows streamed lists ends the initial events with a bookmark at once; one that
# ignores the parameter never does.
_INITIAL_SILENCE = 10.0
_MAX_BROKEN_LISTS = 3
LONGEST_RETRY = 30.0


class Sink(Protocol[T]):
    """The consumer of a reflector."""

    async def replace(self, objects: dict[Key, T], resource_version: str) -> None:
        """Replace everything: these are all the objects there are."""
        ...

    def changed(self, obj: T, resource_version: str) -> None:
        """Process an added or modified object."""
        ...

    def deleted(self, obj: T, resource_version: str) -> None:
        """Process the deletion of an object."""
        ...

    def bookmark(self, resource_version: str) -> None:
        """Record that nothing else changed up to this version."""
        ...


class _UseListError(Exception):
    """The server does not support streamed lists."""


class _BrokenListError(Exception):
    """A streamed list ended with an ERROR event; a paged list may succeed."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(str(error))
        self.error = error


class Reflector(Generic[T]):
    """Lists and watches one collection.

    Args:
        client: The API server.
        resource: What to watch.
        decoder: How objects become views.
        sink: Where changes go.
        namespace: ``None`` means all namespaces.
        label_selector: Only objects with these labels.
        field_selector: Only objects with these fields.
        metadata_only: Ask for ``PartialObjectMetadata``, for kinds whose body is not needed.
        clock: Source of time.
        rng: Source of jitter.
        metrics: Where relists and errors are counted, if anywhere.
        on_state: Called with failures that repeat, and with None once the server works again.
        longest_retry: Longest seconds between attempts, before jitter, which may double them.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        decoder: ViewDecoder[T],
        sink: Sink[T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        clock: Clock = SYSTEM_CLOCK,
        rng: random.Random | None = None,
        metrics: Metrics | None = None,
        on_state: Callable[[Exception | None], None] | None = None,
        longest_retry: float = LONGEST_RETRY,
    ) -> None:
        self._client = client
        self._path = resource.path(namespace)
        self._decoder = decoder
        self._sink = sink
        self._selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._accept = self._list_accept = "application/json"
        if metadata_only:
            as_ = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
            self._accept, self._list_accept = as_.format(""), as_.format("List")
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._streams_lists = True
        self._pages_next = False
        self._broken_lists = 0
        self._resource_version = ""
        self._log = get_logger(resource=resource.plural, namespace=namespace or "")
        self._relists = self._undecodable = errors = None
        if metrics is not None:
            self._relists = metrics.relists.labels(resource.plural)
            self._undecodable = metrics.undecodable.labels(resource.plural)
            errors = metrics.watch_errors.labels(resource.plural)
        self._pace = Pace(clock, self._rng, self._log, errors, on_state, longest=longest_retry)

    def restart(self) -> None:
        """List again, and forget all failures; `run` must not be running."""
        self._resource_version = ""
        self._pace.restart()

    async def run(self) -> None:
        """Reflect until cancelled."""
        pace = self._pace
        while True:
            pace.begin()
            delay = 0.0
            try:
                await self._reflect()
                if not pace.settled():
                    delay = pace.delay()
            except _UseListError:
                self._streams_lists = False
            except _BrokenListError as broken:
                self._pages_next = True
                pace.settled()
                delay = broken.error.retry_after or 0.0
                pace.failed(broken.error, delay)
            except GoneError:
                self._resource_version = ""
                pace.settled()
                delay = pace.delay_expired()
                self._log.info("watch expired, listing again")
            except ApiError as error:
                pace.settled()
                delay = max(pace.delay(), error.retry_after or 0.0)
                pace.failed(error, delay)
            except (ConfigError, msgspec.DecodeError, RecursionError) as error:
                delay = pace.delay()
                pace.failed(error, delay)
            except Exception:  # noqa: BLE001 - logged with its traceback
                # A reflector that ended would silently leave its cache stale.
                delay = pace.delay()
                self._log.exception("watch failed", retry_in=round(delay, 1))
            if delay:
                await asyncio.sleep(delay)

    async def _reflect(self) -> None:
        if not self._resource_version:
            if self._relists is not None:
                self._relists.inc()
            if self._streams_lists and not self._pages_next:
                await self._watch(initial=True)
                return
            await self._list()
            self._pages_next = False
        await self._watch(initial=False)

    # Paged list

    async def _list(self) -> None:
        objects: dict[Key, T] = {}
        token: str | None = None
        limit: int | None = _PAGE
        pages = Pages()
        while True:
            known = len(objects)
            try:
                metadata = await self._page(objects, token, limit)
            except GoneError:
                if token is None:
                    raise
                # The continue token has expired: list everything in one page.
                objects.clear()
                token = limit = None
                pages = Pages()
                continue
            token = metadata.continue_
            pages.add(len(objects) - known, token)
            if not token:
                break
        await self._replace(objects, metadata.resource_version)

    async def _page(self, objects: dict[Key, T], token: str | None, limit: int | None) -> ListMeta:
        params = {**self._selectors, "limit": limit, "continue": token or None}
        body = await self._client.request(
            "GET", self._path, params=params, accept=self._list_accept
        )
        items, raws, metadata = self._decoder.page(body)
        for raw in raws:
            obj = self._view(raw)
            if obj is not None:
                items.append(obj)
        for item in items:
            objects[item.metadata.namespace, item.metadata.name] = item
        await asyncio.sleep(0)
        return metadata

    # Watch

    async def _watch(self, *, initial: bool) -> None:
        params: dict[str, str | int | None] = {
            **self._selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": self._rng.randint(300, 600),
        }
        if initial:
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            params["resourceVersion"] = self._resource_version
        try:
            async with self._client.stream(
                self._path, params, self._accept, read_timeout=_SILENCE
            ) as chunks:
                self._pace.connected()
                batches = line_batches(chunks)
                if initial:
                    await self._receive_initial(batches)
                async for lines in batches:
                    self._events(lines)
                    await asyncio.sleep(0)
        except (BadRequestError, InvalidError) as error:
            if initial:
                # Servers that do not stream lists: "sendInitialEvents is forbidden for watch".
                raise _UseListError from error
            raise

    async def _receive_initial(self, batches: AsyncIterator[list[bytes]]) -> None:
        """Collect the initial events and pass them on as one list."""
        objects: dict[Key, T] = {}
        received = 0
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_INITIAL_SILENCE) as guard:
                async for lines in batches:
                    guard.reschedule(loop.time() + _INITIAL_SILENCE)
                    received += len(lines)
                    if received > MAX_OBJECTS:
                        raise BadAnswerError(
                            f"the server's streamed list has more than {MAX_OBJECTS:,} events"
                        )
                    for number, line in enumerate(lines):
                        version = self._initial_event(objects, line)
                        if version is not None:
                            self._broken_lists = 0
                            await self._replace(objects, version)
                            self._events(lines[number + 1 :])
                            return
                    await asyncio.sleep(0)
        except TimeoutError as error:
            raise _UseListError from error
        except ApiError as error:
            # The error came within the stream: whatever the reason, a paged list may succeed.
            if error.code:
                self._count_broken_list()
                raise _BrokenListError(error) from error
            raise
        self._count_broken_list()
        raise UnreachableError("the streamed list ended early")

    def _count_broken_list(self) -> None:
        self._broken_lists += 1
        if self._broken_lists >= _MAX_BROKEN_LISTS:
            raise _UseListError

    async def _replace(self, objects: dict[Key, T], version: str) -> None:
        # The version is known now, so a watch that fails does not repeat this list. A version
        # that expires at once has a back-off of its own.
        await self._sink.replace(objects, version)
        self._pace.listed()
        self._resource_version = version

    def _initial_event(self, objects: dict[Key, T], line: bytes) -> str | None:
        """Add one initial event; return the resourceVersion if it is the bookmark at the end."""
        if not line:
            return None
        kind, obj = self._decoder.event(line)
        if kind == "BOOKMARK":
            mark = self._decoder.bookmark(undecoded(obj)).metadata
            if _INITIAL_EVENTS_END not in (mark.annotations or {}):
                raise _UseListError
            return mark.resource_version
        if kind == "ERROR":
            raise status_error(undecoded(obj))
        view = self._view(obj) if isinstance(obj, Raw) else obj
        if view is not None:
            key = (view.metadata.namespace, view.metadata.name)
            if kind == "DELETED":
                objects.pop(key, None)
            else:
                objects[key] = view
        return None

    def _events(self, lines: list[bytes]) -> None:
        decode = self._decoder.event
        changed = self._sink.changed
        pace = self._pace
        for line in lines:
            if not line:
                continue
            kind, obj = decode(line)
            if isinstance(obj, Raw):
                if kind == "ERROR":
                    raise status_error(obj)
                if kind == "BOOKMARK":
                    version = self._decoder.bookmark(obj).metadata.resource_version
                    self._sink.bookmark(version)
                    self._resource_version = version
                    pace.advanced()
                    continue
                view = self._view(obj)
                if view is None:
                    self._resource_version = version_of(obj) or self._resource_version
                    continue
                obj = view
            self._resource_version = version = obj.metadata.resource_version
            if kind == "DELETED":
                self._sink.deleted(obj, version)
            else:
                changed(obj, version)
            if not pace.progress:
                pace.advanced()

    def _view(self, raw: Raw) -> T | None:
        """Decode an object the fast path could not; ``None`` if it does not fit the type."""
        try:
            return self._decoder.object(raw)
        except msgspec.ValidationError as error:
            # One malformed object must not hide all others from the controller.
            if self._undecodable is not None:
                self._undecodable.inc()
            self._log.error(
                "object does not fit the type of its cache and is ignored",
                object=describe(raw),
                error=str(error),
            )
            return None
