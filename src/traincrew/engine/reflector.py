"""Keep a local picture of one collection equal to the server's.

The reflector asks for the current objects (a streamed list where the server has it, KEP-3157,
else a paged list) and then for every change, for ever. Whatever goes wrong on the way, it tries
again with back-off; it only ends by cancellation. A consumer sees a sequence that is always true:
objects deleted while the connection was down are reported as deleted after the next list.

The behaviour is client-go's, plus what its users learnt: bytes are split on newlines only (an
annotation may contain U+0085 or U+2028 raw), lines have no length limit, silence longer than a
bookmark interval means a dead connection, and every chunk yields to the other tasks, because
reading buffered data does not suspend.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw

from traincrew.engine.backoff import Backoff
from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.errors import (
    ApiError,
    BadRequestError,
    ConfigError,
    GoneError,
    InvalidError,
    UnreachableError,
)
from traincrew.engine.logs import get_logger
from traincrew.engine.objects import HasMetadata
from traincrew.engine.views import Bookmark, ListMeta, ViewDecoder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from traincrew.engine.client import Client
    from traincrew.engine.metrics import Metrics
    from traincrew.engine.resources import Resource
    from traincrew.engine.store import Key

T = TypeVar("T", bound=HasMetadata)

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_PAGE = 500
# Servers send a bookmark about once a minute (KEP-956).
_SILENCE = 70.0
# A server that knows streamed lists ends the initial events with a bookmark at once; one that
# ignores the parameter never does.
_INITIAL_SILENCE = 10.0
_MAX_BROKEN_LISTS = 3
_GOOD_WATCH = 10.0


class Sink(Protocol[T]):
    """What a reflector reports to."""

    async def replace(self, objects: dict[Key, T], resource_version: str) -> None:
        """These are all objects now."""
        ...

    def changed(self, obj: T, resource_version: str) -> None:
        """The object was added or modified."""
        ...

    def deleted(self, obj: T, resource_version: str) -> None:
        """The object is gone."""
        ...

    def bookmark(self, resource_version: str) -> None:
        """Nothing changed up to this version."""
        ...


class _UseListError(Exception):
    """The server does not stream lists."""


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
        metadata_only: Ask for ``PartialObjectMetadata``, for kinds whose body nobody reads.
        clock: Source of time.
        rng: Source of jitter.
        metrics: Where relists and errors are counted, if anywhere.
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
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._backoff = Backoff(0.2, 30.0, jitter=1.0, rng=self._rng)
        self._streams_lists = True
        self._broken_lists = 0
        self._resource_version = ""
        self._progress = False
        self._connected_at: float | None = None
        self._last_error = ""
        self._log = get_logger(resource=resource.plural, namespace=namespace or "")
        self._relists = self._errors = self._undecodable = None
        if metrics is not None:
            self._relists = metrics.relists.labels(resource.plural)
            self._errors = metrics.watch_errors.labels(resource.plural)
            self._undecodable = metrics.undecodable.labels(resource.plural)

    async def run(self) -> None:
        """Reflect until cancelled."""
        while True:
            self._progress = False
            self._connected_at = None
            delay = 0.0
            try:
                await self._reflect()
                if not self._settled():
                    delay = self._backoff.next()
            except _UseListError:
                self._streams_lists = False
            except GoneError:
                self._resource_version = ""
                # The first relist is free; a server that keeps saying so is given time.
                self._settled()
                delay = self._backoff.next()
                delay = delay if self._backoff.failures > 1 else 0.0
                self._log.info("watch expired, listing again")
            except ApiError as error:
                self._settled()
                delay = max(self._backoff.next(), error.retry_after or 0.0)
                self._failed(error, delay)
            except (ConfigError, msgspec.DecodeError) as error:
                delay = self._backoff.next()
                self._failed(error, delay)
            except Exception:  # noqa: BLE001 - logged with its traceback
                # A reflector that ends would let its cache go stale in silence.
                delay = self._backoff.next()
                self._log.exception("watch failed", retry_in=round(delay, 1))
            if delay:
                await asyncio.sleep(delay)

    def _settled(self) -> bool:
        """Whether the watch that just ended was good; if it lasted, failures are forgotten."""
        if self._connected_at is None:
            return False
        if self._clock.monotonic() - self._connected_at >= _GOOD_WATCH:
            self._backoff.reset()
            return True
        return self._progress

    def _failed(self, error: Exception, delay: float) -> None:
        if self._errors is not None:
            self._errors.inc()
        # Connections end all the time; only what repeats without progress is news.
        quiet = isinstance(error, UnreachableError) and self._backoff.failures <= 1
        text = str(error)
        if quiet or text == self._last_error:
            self._log.debug("watch failed", error=text, retry_in=round(delay, 1))
        else:
            self._log.warning("watch failed", error=text, retry_in=round(delay, 1))
            self._last_error = text

    def _advanced(self) -> None:
        """Something new arrived, so the server works again."""
        if not self._progress:
            self._progress = True
            self._backoff.reset()
            self._last_error = ""

    async def _reflect(self) -> None:
        if not self._resource_version:
            if self._relists is not None:
                self._relists.inc()
            if self._streams_lists:
                await self._watch(initial=True)
                return
            await self._list()
        await self._watch(initial=False)

    # Paged list

    async def _list(self) -> None:
        objects: dict[Key, T] = {}
        token: str | None = None
        limit: int | None = _PAGE
        while True:
            try:
                metadata = await self._page(objects, token, limit)
            except GoneError:
                if token is None:
                    raise
                # The token is older than the server's history: one page with everything.
                objects.clear()
                token = limit = None
                continue
            token = metadata.continue_
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
                self._connected_at = self._clock.monotonic()
                batches = _batches(chunks)
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
        """Collect the initial events and hand them on as one whole."""
        objects: dict[Key, T] = {}
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_INITIAL_SILENCE) as guard:
                async for lines in batches:
                    guard.reschedule(loop.time() + _INITIAL_SILENCE)
                    for number, line in enumerate(lines):
                        version = self._initial_event(objects, line)
                        if version is not None:
                            await self._replace(objects, version)
                            self._events(lines[number + 1 :])
                            return
                    await asyncio.sleep(0)
        except TimeoutError as error:
            raise _UseListError from error
        self._broken_lists += 1
        if self._broken_lists >= _MAX_BROKEN_LISTS:
            raise _UseListError
        raise UnreachableError("the streamed list ended early")

    async def _replace(self, objects: dict[Key, T], version: str) -> None:
        # A list alone does not reset the back-off: the watch after it may be what fails.
        await self._sink.replace(objects, version)
        self._resource_version = version

    def _initial_event(self, objects: dict[Key, T], line: bytes) -> str | None:
        """Add one initial event; the resourceVersion if it was the mark that ends them."""
        if not line:
            return None
        kind, obj = self._decoder.event(line)
        if kind == "BOOKMARK":
            mark = self._decoder.bookmark(_raw(obj)).metadata
            if _INITIAL_EVENTS_END not in (mark.annotations or {}):
                raise _UseListError
            return mark.resource_version
        if kind == "ERROR":
            raise _status_error(_raw(obj))
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
        for line in lines:
            if not line:
                continue
            kind, obj = decode(line)
            if isinstance(obj, Raw):
                if kind == "ERROR":
                    raise _status_error(obj)
                if kind == "BOOKMARK":
                    version = self._decoder.bookmark(obj).metadata.resource_version
                    self._sink.bookmark(version)
                    self._resource_version = version
                    self._advanced()
                    continue
                view = self._view(obj)
                if view is None:
                    self._resource_version = _version_of(obj) or self._resource_version
                    continue
                obj = view
            self._resource_version = version = obj.metadata.resource_version
            if kind == "DELETED":
                self._sink.deleted(obj, version)
            else:
                changed(obj, version)
            if not self._progress:
                self._advanced()

    def _view(self, raw: Raw) -> T | None:
        """Decode an object that needs a second look; ``None`` if it does not fit the type."""
        try:
            return self._decoder.object(raw)
        except msgspec.ValidationError as error:
            # One odd object must not blind the controller to all others.
            if self._undecodable is not None:
                self._undecodable.inc()
            self._log.error(
                "object does not fit the type of its cache and is ignored",
                object=_describe(raw),
                error=str(error),
            )
            return None


async def _batches(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Whole lines as they arrive: split on newlines only, of any length."""
    parts: list[bytes] = []
    async for chunk in chunks:
        lines = chunk.split(b"\n")
        parts.append(lines[0])
        if len(lines) == 1:
            await asyncio.sleep(0)
            continue
        lines[0] = b"".join(parts)
        parts = [lines.pop()]
        yield lines


def _raw(obj: object) -> Raw:
    """The undecoded object of a bookmark or error."""
    assert isinstance(obj, Raw)
    return obj


def _status_error(raw: Raw) -> ApiError:
    """The error an ``ERROR`` event stands for."""
    try:
        status = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        status = None
    if not isinstance(status, dict):
        status = {}
    code = status.get("code")
    return ApiError.from_status(code if isinstance(code, int) else 500, status)


def _version_of(raw: Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=Bookmark).metadata.resource_version
    except msgspec.DecodeError:
        return ""


def _describe(raw: Raw) -> str:
    try:
        metadata = msgspec.json.decode(raw).get("metadata") or {}
    except (msgspec.DecodeError, AttributeError):
        return "?"
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '?')}"
