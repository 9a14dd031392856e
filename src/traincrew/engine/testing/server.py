"""An API server for tests: stores objects, serves watches, injects faults.

It handles paths, not kinds: no schemas, defaults, admission or field ownership. An apply patch
merges maps and replaces lists. Tests that need the real rules run against the embedded cluster.
"""
# Over 400 lines: one server whose verbs, watches and faults share one store.

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from traincrew.engine import mergepatch
from traincrew.engine.client import Client
from traincrew.engine.config import ClientConfig
from traincrew.engine.errors import UnreachableError
from traincrew.engine.testing.simulation import SimulatedClock
from traincrew.engine.testing.wire import (
    FakeStream,
    Key,
    Target,
    covers,
    event_line,
    missing,
    parse_path,
    respond,
    selector,
    status,
)
from traincrew.engine.times import format_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from traincrew.engine.client import HttpRequest, HttpResponse
    from traincrew.engine.clock import Clock
    from traincrew.engine.resources import Resource


class SimulatedCrash(BaseException):
    """Raised by a hook of `FakeServer` to stop the program under test as SIGKILL would."""


class _Fault(Struct):
    """One injected fault for requests that match."""

    method: str
    path: str
    times: int
    after: int = 0
    status: int = 0
    reason: str = ""
    message: str = ""
    headers: dict[str, str] = {}
    error: Exception | None = None
    applied: bool = False
    delay: float = 0.0


class _Watch:
    """One open watch."""

    def __init__(self, target: Target, query: dict[str, str]) -> None:
        self.target = target
        self.selector = selector(query)
        self.queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.bookmarks = query.get("allowWatchBookmarks") == "true"


class FakeServer:
    """An in-memory API server behind the `Transport` protocol.

    Args:
        watch_list: Whether it streams lists (``sendInitialEvents``).
        clock: Source of time; simulated by default.

    Attributes:
        requests: Every request so far, as ``METHOD path?query``.
        duplicate_events: Send every watch event twice.
        before_write: Called before each write is applied; may raise.
        after_write: Called after each write was applied, before its response; may raise.
        resource_version: Version of the last write.
    """

    def __init__(self, *, watch_list: bool = True, clock: Clock | None = None) -> None:
        self.clock = clock or SimulatedClock()
        self.requests: list[str] = []
        self.duplicate_events = False
        self.before_write: Callable[[HttpRequest], None] | None = None
        self.after_write: Callable[[HttpRequest], None] | None = None
        self.resource_version = 100
        self._watch_list = watch_list
        self._objects: dict[Key, dict[str, Any]] = {}
        self._history: deque[tuple[int, str, Key, dict[str, Any]]] = deque()
        self._oldest = 100
        self._watches: list[_Watch] = []
        self._faults: list[_Fault] = []
        self._running = asyncio.Event()
        self._running.set()
        self._late: set[asyncio.Task[HttpResponse]] = set()
        self._snapshots: dict[str, tuple[int, list[dict[str, Any]]]] = {}

    # For tests

    def client(self, *, namespace: str = "default") -> Client:
        """Return a client of this server."""
        config = ClientConfig("http://127.0.0.1:6443/secret", namespace=namespace)
        return Client(config, transport=self, clock=self.clock)

    def put(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        """Create or replace an object without a request; watches report it."""
        metadata = obj["metadata"]
        key = (resource.path(), metadata.get("namespace", ""), metadata["name"])
        present = self._objects.get(key)
        full = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        if present:
            identity = {"uid": present["metadata"]["uid"]}
            full["metadata"] = identity | metadata
        return self._store(key, full, "MODIFIED" if present else "ADDED")

    def remove(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Delete an object without a request; watches report it."""
        self._remove((resource.path(), namespace, name))

    def stored(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any] | None:
        """Return the current state of an object."""
        return self._objects.get((resource.path(), namespace, name))

    def all(self, resource: Resource) -> list[dict[str, Any]]:
        """Return all objects of a resource, sorted by namespace and name."""
        path = resource.path()
        keys = sorted(key for key in self._objects if key[0] == path)
        return [self._objects[key] for key in keys]

    @property
    def open_watches(self) -> int:
        """Number of watches that are connected now."""
        return len(self._watches)

    def fail(
        self,
        method: str = "",
        path: str = "",
        *,
        status: int = 0,
        reason: str = "",
        message: str = "scripted",
        retry_after: float | None = None,
        error: Exception | None = None,
        applied: bool = False,
        delay: float = 0.0,
        after: int = 0,
        times: int = 1,
    ) -> None:
        """Inject a fault.

        Args:
            method: Only these requests; any by default. ``WATCH`` means a GET that watches.
            path: Only paths (with query) that contain this.
            status: Answer with this HTTP status.
            reason: The reason in the ``Status``.
            message: The message in the ``Status``.
            retry_after: The ``Retry-After`` header, seconds.
            error: Break the connection instead.
            applied: Apply a write nevertheless.
            delay: Seconds before the response; given alone, the response is the usual one.
            after: Let this many matching requests pass first.
            times: How many requests fail.
        """
        headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
        self._faults.append(
            _Fault(
                method, path, times, after, status, reason, message, headers, error, applied, delay
            )
        )

    def drop_watches(self, *, clean: bool = False, partial: bytes = b"") -> None:
        """End all watches: cleanly, like a server-side timeout, or in the middle of a line."""
        for watch in self._watches:
            if partial:
                watch.queue.put_nowait(partial)
            watch.queue.put_nowait(None if clean else ConnectionResetError("reset by peer"))

    def send(self, line: bytes) -> None:
        """Send any bytes on all watches."""
        for watch in self._watches:
            watch.queue.put_nowait(line)

    def send_error(self, code: int, reason: str, message: str = "scripted") -> None:
        """Send an ``ERROR`` event on all watches, and end them, as real servers do."""
        self.send(event_line("ERROR", status(code, reason, message)))
        self.drop_watches(clean=True)

    def send_bookmark(self) -> None:
        """Send a bookmark with the current version on all watches that asked for them."""
        for watch in self._watches:
            if watch.bookmarks:
                watch.queue.put_nowait(self._bookmark(initial=False))

    def pause(self) -> None:
        """Stop as SIGSTOP stops a process: requests arrive, and are served after `resume`.

        Those whose sender has given up meanwhile are served as well.
        """
        self._running.clear()

    def resume(self) -> None:
        """Continue after `pause`."""
        self._running.set()

    def compact(self) -> None:
        """Discard the history: resuming a watch from an older version gives 410."""
        self._history.clear()
        self._oldest = self.resource_version

    # Transport

    def cut(self) -> None:
        """Nothing to break."""

    async def close(self) -> None:
        """Nothing to release."""

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Serve anything but a watch."""
        if self._running.is_set():
            return await self._answer(request)
        late = asyncio.create_task(self._answer(request))
        self._late.add(late)
        late.add_done_callback(self._late.discard)
        try:
            return await asyncio.shield(late)
        except asyncio.CancelledError:
            late.add_done_callback(lambda task: task.cancelled() or task.exception())
            raise

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        await self._running.wait()
        target, query = self._receive(request)
        fault = self._fault(request.method, request)
        if fault is not None:
            if fault.delay:
                await self._wait(fault.delay, request.timeout)
            if fault.applied:
                self._serve(request, target, query)
            if fault.error is not None:
                raise UnreachableError(str(fault.error)) from fault.error
            if fault.status:
                return _failure(fault)
        await asyncio.sleep(0)
        return self._serve(request, target, query)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[FakeStream]:
        """Serve a watch; anything else as one chunk."""
        await self._running.wait()
        target, query = self._receive(request)
        watching = query.get("watch") == "true"
        fault = self._fault("WATCH" if watching else "GET", request)
        if fault is not None:
            if fault.delay:
                await self._wait(fault.delay, request.read_timeout)
            if fault.error is not None:
                raise UnreachableError(str(fault.error)) from fault.error
            if fault.status:
                answer = _failure(fault)
                yield FakeStream(answer.status, answer.headers, [answer.body])
                return
        refusal = self._refuse_watch(query) if watching else None
        if refusal is not None or not watching:
            answer = refusal or self._serve(request, target, query)
            yield FakeStream(answer.status, answer.headers, [answer.body])
            return
        watch = _Watch(target, query)
        self._start_watch(watch, query)
        self._watches.append(watch)
        try:
            yield FakeStream(200, {}, [], watch.queue, request.read_timeout)
        finally:
            self._watches.remove(watch)

    # Internals

    def _receive(self, request: HttpRequest) -> tuple[Target, dict[str, str]]:
        parts = urlsplit(request.url)
        path = parts.path.removeprefix("/secret")
        self.requests.append(
            f"{request.method} {path}" + (f"?{parts.query}" if parts.query else "")
        )
        return parse_path(path), dict(parse_qsl(parts.query))

    @staticmethod
    async def _wait(seconds: float, limit: float | None) -> None:
        if limit is not None and seconds > limit:
            await asyncio.sleep(limit)
            raise UnreachableError("no answer in time")
        await asyncio.sleep(seconds)

    def _fault(self, method: str, request: HttpRequest) -> _Fault | None:
        for fault in self._faults:
            if fault.method not in {"", method} or fault.path not in request.url:
                continue
            if fault.after > 0:
                fault.after -= 1
                continue
            fault.times -= 1
            if fault.times <= 0:
                self._faults.remove(fault)
            return fault
        return None

    def _serve(self, request: HttpRequest, target: Target, query: dict[str, str]) -> HttpResponse:
        if request.method == "GET":
            if not target.name:
                return self._list(target, query)
            present = self._objects.get(target.key)
            return respond(200, present) if present else missing(target)
        if self.before_write is not None:
            self.before_write(request)
        answer = self._write(request, target)
        if self.after_write is not None:
            self.after_write(request)
        return answer

    def _write(self, request: HttpRequest, target: Target) -> HttpResponse:
        body = json.loads(request.body) if request.body else {}
        if request.method == "POST" and not target.subresource:
            return self._create(target, body)
        present = self._objects.get(target.key)
        apply = request.headers.get("Content-Type", "").startswith("application/apply-patch")
        if present is None:
            return self._create(target, body) if apply else missing(target)
        if request.method == "DELETE":
            return self._delete(target, body, present)
        if request.method == "PUT":
            if (sent := body["metadata"].get("resourceVersion")) and sent != present["metadata"][
                "resourceVersion"
            ]:
                return respond(409, status(409, "Conflict", "the object has been modified"))
            changed = {**present, "status": body.get("status")} if target.subresource else body
            changed["metadata"] = {**present["metadata"], **body["metadata"]}
        elif isinstance(body, list):
            message = "this server does not support JSON patch; test against the embedded cluster"
            return respond(415, status(415, "UnsupportedMediaType", message))
        else:
            changed = mergepatch.apply(
                present, {"status": body["status"]} if target.subresource else body
            )
        version = present["metadata"]["resourceVersion"]
        changed["metadata"]["resourceVersion"] = version
        if changed == present:
            return respond(200, present)
        return respond(200, self._store(target.key, changed, "MODIFIED"))

    def _create(self, target: Target, body: dict[str, Any]) -> HttpResponse:
        metadata = body.setdefault("metadata", {})
        if "name" not in metadata and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{self.resource_version:05d}"
        if target.namespace:
            metadata["namespace"] = target.namespace
        key = (target.collection, target.namespace, metadata["name"])
        if key in self._objects:
            message = f'{target.collection.rpartition("/")[2]} "{key[2]}" already exists'
            return respond(409, status(409, "AlreadyExists", message))
        return respond(201, self._store(key, body, "ADDED"))

    def _delete(
        self, target: Target, options: dict[str, Any], present: dict[str, Any]
    ) -> HttpResponse:
        for field, expected in (options.get("preconditions") or {}).items():
            if present["metadata"].get(field) != expected:
                return respond(409, status(409, "Conflict", f"precondition failed: {field}"))
        if present["metadata"].get("finalizers"):
            marked = mergepatch.apply(
                present, {"metadata": {"deletionTimestamp": self._timestamp()}}
            )
            return respond(200, self._store(target.key, marked, "MODIFIED"))
        return respond(200, self._remove(target.key))

    def _timestamp(self) -> str:
        return format_time(self.clock.now())

    def _store(self, key: Key, obj: dict[str, Any], kind: str) -> dict[str, Any]:
        self.resource_version += 1
        metadata = dict(obj["metadata"])
        metadata["resourceVersion"] = str(self.resource_version)
        metadata.setdefault("uid", f"uid-{self.resource_version}")
        metadata.setdefault("creationTimestamp", self._timestamp())
        obj = {**obj, "metadata": metadata}
        self._objects[key] = obj
        self._publish(kind, key, obj)
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            return self._remove(key)
        return obj

    def _remove(self, key: Key) -> dict[str, Any]:
        self.resource_version += 1
        obj = self._objects.pop(key)
        obj = {
            **obj,
            "metadata": {**obj["metadata"], "resourceVersion": str(self.resource_version)},
        }
        self._publish("DELETED", key, obj)
        return obj

    def _publish(self, kind: str, key: Key, obj: dict[str, Any]) -> None:
        self._history.append((self.resource_version, kind, key, obj))
        for watch in self._watches:
            self._deliver(watch, kind, key, obj)

    def _deliver(self, watch: _Watch, kind: str, key: Key, obj: dict[str, Any]) -> None:
        if covers(watch.target, key) and watch.selector(obj):
            for _ in range(2 if self.duplicate_events else 1):
                watch.queue.put_nowait(event_line(kind, obj))

    def _refuse_watch(self, query: dict[str, str]) -> HttpResponse | None:
        if query.get("sendInitialEvents") and not self._watch_list:
            message = "sendInitialEvents is forbidden for watch unless the WatchList feature is on"
            return respond(422, status(422, "Invalid", message))
        return None

    def _start_watch(self, watch: _Watch, query: dict[str, str]) -> None:
        if query.get("sendInitialEvents") == "true":
            for key, obj in self._objects.items():
                self._deliver(watch, "ADDED", key, obj)
            watch.queue.put_nowait(self._bookmark(initial=True))
            return
        since = int(query.get("resourceVersion") or 0)
        if since < self._oldest:
            message = f"too old resource version: {since} ({self._oldest})"
            watch.queue.put_nowait(event_line("ERROR", status(410, "Expired", message)))
            watch.queue.put_nowait(None)
            return
        for version, kind, key, obj in self._history:
            if version > since:
                self._deliver(watch, kind, key, obj)

    def _bookmark(self, *, initial: bool) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(self.resource_version)}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return event_line(
            "BOOKMARK", {"kind": "Bookmark", "apiVersion": "v1", "metadata": metadata}
        )

    def _list(self, target: Target, query: dict[str, str]) -> HttpResponse:
        select = selector(query)
        limit = int(query.get("limit") or 0)
        token = query.get("continue")
        if token is None:
            version = self.resource_version
            items = [
                obj
                for key, obj in sorted(self._objects.items())
                if covers(target, key) and select(obj)
            ]
        else:
            version, items = self._snapshots.pop(token)
            if version < self._oldest:
                return respond(410, status(410, "Expired", "the continue token is too old"))
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            following = f"{version}-{len(items)}"
            self._snapshots[following] = (version, items[limit:])
            metadata["continue"] = following
            items = items[:limit]
        # As on real servers, items of a list have no kind.
        bare = [{k: v for k, v in i.items() if k not in {"kind", "apiVersion"}} for i in items]
        return respond(
            200, {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": bare}
        )


def _failure(fault: _Fault) -> HttpResponse:
    answer = respond(fault.status, status(fault.status, fault.reason, fault.message))
    answer.headers |= fault.headers
    return answer
