"""WATCH: every change that a client selects, in order, at most once.

A watcher has no task of its own. When the storage has committed the writes of one iteration of the
loop, the hub passes each watcher the encoded events that it selects, and the watcher sends them
with one write. While a client is slow, its events are queued as references to the bytes that all
watchers share, and a task sends them in blocks, so that one client needs at most a few blocks of
its own. A client that does not keep up is disconnected when its backlog gets too large, as
upstream's watch cache does with a watcher whose channel stays full (`cacheWatcher.add`); it lists
again.
"""
# Over 400 lines: a watch and the hub that feeds it share one backlog.

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from traincrew.local.apiserver.storage import CompactedError
from traincrew.local.apiserver.values import causes
from traincrew.local.apiserver.values.codec import encode
from traincrew.local.apiserver.values.errors import StatusError, expired, invalid

from .lists import check_revision, parse_revision
from .memory import Trimmer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.storage import Change, Entry, Storage

    from .representation import Representation
    from .selection import Selection

__all__ = ["Watch", "WatchHub", "WatchOptions", "error_line", "watch_options"]

BOOKMARK_INTERVAL = 60.0
BACKLOG_BYTES = 16 * 1024 * 1024
BACKLOG_EVENTS = 100_000
BLOCK = 256 * 1024
"""Bytes that are joined into one write, and limit of the connection's write buffer."""
FINISH_SECONDS = 2.0
"""Seconds a slow client gets, when its watch ends, to receive the queued events."""
_MAX_TIMEOUT = 3600.0


class WatchOptions(NamedTuple):
    """The options of a watch.

    Attributes:
        since: revision to start after; None starts with all current objects.
        initial_bookmark: send a bookmark after the current objects (WatchList).
        bookmarks: send bookmarks periodically.
        timeout: seconds until the server ends the stream.
    """

    since: int | None
    initial_bookmark: bool
    bookmarks: bool
    timeout: float


def watch_options(call: Call, current: int) -> WatchOptions:
    """Parse and validate the query of a watch.

    Args:
        call: the request.
        current: the current revision of the storage.

    Raises:
        StatusError: 400 or 422 naming the invalid option; 504 for initial events at a revision
            that does not exist yet.
    """
    revision = parse_revision(call.text("resourceVersion"))
    initial = call.flag("sendInitialEvents")
    match = call.text("resourceVersionMatch")
    bookmarks = bool(call.flag("allowWatchBookmarks"))
    field, detail = "resourceVersionMatch", ""
    if initial is None and match:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    elif initial is not None and match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    elif initial and not bookmarks:
        field = "allowWatchBookmarks"
        detail = "sendInitialEvents requires allowWatchBookmarks to be set to true"
    if detail:
        cause = causes.forbidden(field, detail)
        raise invalid("meta.k8s.io", "ListOptions", "", [cause])
    seconds = call.number("timeoutSeconds")
    # Jitter, so that the watches of one client do not all end at the same moment.
    timeout = _MAX_TIMEOUT * random.uniform(0.5, 1) if not seconds else float(seconds)  # noqa: S311
    if initial is None:
        since = revision or None  # both 0 and no revision mean: start with the current objects
    else:
        if initial:
            check_revision(revision, current)
        since = None if initial else revision
        if initial is False and not revision:
            since = -1  # from now on
    return WatchOptions(since, bool(initial), bookmarks, timeout)


class Connection(Protocol):
    """The connection to a watching client."""

    def send(self, data: bytes) -> None:
        """Send bytes without waiting."""

    async def write(self, data: bytes) -> None:
        """Send bytes, waiting while the client is slow."""

    def waiting(self) -> int:
        """Return the number of bytes in the write buffer."""

    def abort(self) -> None:
        """Abort the connection; a waiting `write` raises `ConnectionError`."""


class Watch:
    """One client's watch.

    Args:
        selection: the objects to watch.
        representation: how to show them.
        connection: the connection to the client.
    """

    def __init__(
        self, selection: Selection, representation: Representation, connection: Connection
    ) -> None:
        self._selection = selection
        self._representation = representation
        self._connection = connection
        self._first = representation.tabular
        self._initial: list[tuple[str, Entry]] = []
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._sender: asyncio.Task[None] | None = None
        self._early_changes: list[Change] | None = []
        self._early_bytes = 0
        self._seen = 0
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hub: WatchHub | None = None
        self.overflowed = False
        """Whether the client was disconnected because it was too slow."""

    async def begin(self, hub: WatchHub, resource: ResourceType, options: WatchOptions) -> None:
        """Register with the hub, and queue the initial events.

        Raises:
            StatusError: 410 when the requested revision is too old.
        """
        storage = hub.storage
        if committed := storage.committed:
            await asyncio.shield(committed)
        since = options.since
        initial: list[Entry] = []
        changes: list[Change] = []
        if since is None:
            initial = storage.scan(resource.identifier, self._selection.namespace)
        elif since > storage.revision:
            raise expired(f"too large resource version: {since} ({storage.revision})")
        elif since >= 0:
            try:
                changes = storage.changes(resource.identifier, since)
            except CompactedError:
                raise expired(f"too old resource version: {since} ({storage.floor})") from None
        hub.add(resource.identifier, self)
        self._hub = hub
        self._seen = storage.revision
        self._initial = await self._select(initial, changes)
        if options.initial_bookmark:
            self._queue(self._bookmark(initial_end=True))

    async def _select(
        self, initial: Sequence[Entry], changes: Sequence[Change]
    ) -> list[tuple[str, Entry]]:
        """Return the initial events."""
        events = [("ADDED", entry) for entry in initial if self._matches(entry)]
        return events + [event for change in changes if (event := self._event_of(change))]

    def _matches(self, entry: Entry) -> bool:
        return self._selection.matches(entry)

    def initial_lines(self) -> Iterator[bytes]:
        """Yield the encoded events of `begin`, to be sent before `start_sending`."""
        initial, self._initial = self._initial, []
        for kind, entry in initial:
            yield self._line(kind, entry, None)
        while self._lines:
            yield self._lines.popleft()
        self._size = 0

    def start_sending(self) -> None:
        """Send events as they arrive from now on, after those that arrived since `begin`."""
        early, self._early_changes = self._early_changes, None
        for change in early or ():
            self._queue_change(change)
        self.flush()

    def offer(self, change: Change) -> None:
        """Queue a change if it is selected; the next `flush` sends it."""
        if self._early_changes is None:
            self._queue_change(change)
            return
        self._early_changes.append(change)
        entry = change.new or change.old
        self._early_bytes += len(entry.data) if entry else 0
        if self._early_bytes > BACKLOG_BYTES or len(self._early_changes) > BACKLOG_EVENTS:
            self._overflow()

    def flush(self) -> None:
        """Send the queued events, or leave them to a task while the client is slow."""
        if not self._lines or self._early_changes is not None or self._ended.done():
            return
        if self._sender is None and self._size <= BLOCK and self._connection.waiting() <= BLOCK:
            self._connection.send(self._block())
        elif self._size > BACKLOG_BYTES or len(self._lines) > BACKLOG_EVENTS:
            self._overflow()
        elif self._sender is None:
            self._sender = asyncio.create_task(self._send_queued(), name="slow-watch")

    def _block(self) -> bytes:
        """Dequeue the next lines, about `BLOCK` bytes in total."""
        taken: list[bytes] = []
        size = 0
        while self._lines and size < BLOCK:
            taken.append(self._lines.popleft())
            size += len(taken[-1])
        self._size -= size
        return b"".join(taken)

    async def _send_queued(self) -> None:
        try:
            while self._lines:
                await self._connection.write(self._block())
        except ConnectionError:
            self._lines.clear()
            self.end()
        finally:
            self._sender = None

    def _overflow(self) -> None:
        self.overflowed = True
        self._lines.clear()
        self.end()
        self._connection.abort()

    def _queue(self, line: bytes) -> None:
        self._lines.append(line)
        self._size += len(line)

    def _queue_change(self, change: Change) -> None:
        if change.revision <= self._seen:
            return
        self._seen = change.revision
        if event := self._event_of(change):
            self._queue(self._line(*event, change))

    def _event_of(self, change: Change) -> tuple[str, Entry] | None:
        """Return the event type and object of a change; None if it is not selected."""
        matches = self._matches
        new, old = change.new, change.old
        passed = old is not None and matches(old)
        if new is not None and matches(new):
            return ("MODIFIED" if passed else "ADDED"), new
        return ("DELETED", change.tombstone) if passed else None

    def _line(self, kind: str, entry: Entry, change: Change | None) -> bytes:
        representation = self._representation
        first, self._first = self._first, False
        if change is None or first:
            return _event(kind, representation.event_object(entry, first=first))
        key = (kind, representation.key)
        line = change.lines.get(key)
        if line is None:
            line = _event(kind, representation.event_object(entry, first=False))
            change.lines[key] = line
        return line

    def _bookmark(self, *, initial_end: bool = False) -> bytes:
        return _event(
            "BOOKMARK", self._representation.bookmark(self._seen, initial_end=initial_end)
        )

    def advance(self, revision: int) -> None:
        """Send a bookmark: everything up to a revision has been sent."""
        if self._early_changes is None and not self._ended.done():
            self._seen = max(self._seen, revision)
            self._queue(self._bookmark())
            self.flush()

    def fail(self, error: StatusError) -> None:
        """Send an ERROR event, and end the stream."""
        self._queue(_event("ERROR", encode(error.status())))
        self.flush()
        self.end()

    def end(self) -> None:
        """End the stream."""
        if not self._ended.done():
            self._ended.set_result(None)

    async def wait(self, options: WatchOptions) -> None:
        """Send bookmarks until the watch ends or its timeout expires."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + options.timeout
        while not self._ended.done():
            left = deadline - loop.time()
            if left <= 0:
                return
            pause = left
            if options.bookmarks:
                pause = min(left, BOOKMARK_INTERVAL)
            await asyncio.wait([self._ended], timeout=pause)
            if options.bookmarks and not self._ended.done() and self._hub is not None:
                self.advance(self._hub.reached)

    async def finish(self) -> None:
        """Give a slow client some time to receive the queued events."""
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=FINISH_SECONDS)

    def close(self) -> None:
        """End the watch and remove it from the hub."""
        self.end()
        if self._sender is not None:
            self._sender.cancel()
        if self._hub is not None:
            self._hub.remove(self)


def _event(kind: str, obj: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), obj)


class WatchHub:
    """Distributes committed changes to the watches.

    Attributes:
        storage: the source of the changes.
        reached: revision up to which all watches have received their events.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.reached = storage.revision
        self._watches: dict[str, set[Watch]] = {}
        self._resource_of: dict[Watch, str] = {}
        self._trimmer = Trimmer()
        storage.subscribe(self._distribute)

    def __len__(self) -> int:
        return len(self._resource_of)

    def add(self, identifier: str, watch: Watch) -> None:
        """Register a watch for the changes of a resource."""
        self._watches.setdefault(identifier, set()).add(watch)
        self._resource_of[watch] = identifier

    def remove(self, watch: Watch) -> None:
        """Undo `add`."""
        identifier = self._resource_of.pop(watch, None)
        if identifier is not None:
            self._watches[identifier].discard(watch)
            self._trimmer.soon()

    def end(self, identifier: str) -> None:
        """End the watches of a resource that is no longer served."""
        for watch in tuple(self._watches.get(identifier, ())):
            watch.end()

    def running(self) -> dict[Watch, str]:
        """Return the watches, each with the identifier of its resource."""
        return dict(self._resource_of)

    def close(self) -> None:
        """End all watches."""
        self.storage.unsubscribe(self._distribute)
        self._trimmer.close()
        for watch in tuple(self._resource_of):
            watch.end()

    def _distribute(self, changes: Sequence[Change]) -> None:
        changed: set[Watch] = set()
        for change in changes:
            watches = self._watches.get(change.resource)
            if watches:
                for watch in watches:
                    watch.offer(change)
                changed |= watches
        self.reached = changes[-1].revision
        for watch in changed:
            watch.flush()
        for change in changes:  # the history is kept, its encoded events are not
            change.lines.clear()


def error_line(error: StatusError) -> bytes:
    """Encode an error as the only event of a watch stream."""
    return _event("ERROR", encode(error.status()))
