"""WATCH: every change a client may see, in order, at most once.

A watcher has no task of its own. When the storage has committed the writes of one turn of the
loop, the hub hands each watcher the encoded events that concern it, and the watcher puts them on
the wire with one write. A client that does not keep up is cut off when too much is waiting for it;
it lists again, which costs less than memory without bound.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, NamedTuple

from . import causes
from .codec import encode
from .errors import StatusError, expired, invalid
from .lists import check_revision, parse_revision
from .storage import CompactedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .registry import ResourceType
    from .representation import Representation
    from .requests import Call
    from .selection import Selection
    from .storage import Change, Entry, Storage

__all__ = ["Watch", "WatchHub", "WatchOptions", "error_line", "watch_options"]

BOOKMARK_INTERVAL = 60.0
BACKLOG_BYTES = 16 * 1024 * 1024
_LONGEST = 3600.0


class WatchOptions(NamedTuple):
    """How a watch starts and ends.

    Attributes:
        since: revision to go on from; None starts with all present objects.
        initial_bookmark: say with a bookmark when the present objects are through (WatchList).
        bookmarks: say from time to time which revision has been reached.
        timeout: seconds until the server ends the stream.
    """

    since: int | None
    initial_bookmark: bool
    bookmarks: bool
    timeout: float


def watch_options(call: Call, current: int) -> WatchOptions:
    """Read and check the query of a watch.

    Args:
        call: the request.
        current: the storage's revision.

    Raises:
        StatusError: 400 or 422 naming the wrong option; 504 for initial events of a state that is
            yet to come.
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
    # Watches of one client do not all end in the same moment.
    timeout = _LONGEST * random.uniform(0.5, 1) if not seconds else float(seconds)  # noqa: S311
    if initial is None:
        since = revision or None  # 0 and nothing both mean: start with what is there
    else:
        if initial:
            check_revision(revision, current)
        since = None if initial else revision
        if initial is False and not revision:
            since = -1  # from now on
    return WatchOptions(since, bool(initial), bookmarks, timeout)


class Watch:
    """One client's watch.

    Args:
        selection: which objects it is about.
        representation: how they are shown.
        send: puts bytes on the wire; returns how many are still waiting there.
    """

    def __init__(
        self,
        selection: Selection,
        representation: Representation,
        send: Callable[[bytes], int],
    ) -> None:
        self._selection = selection
        self._representation = representation
        self._send = send
        self._first = representation.tabular
        self._lines: list[bytes] = []
        self._held: list[Change] | None = []
        self._held_bytes = 0
        self._seen = 0
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hub: WatchHub | None = None
        self.overflowed = False
        """Whether the client was too slow to go on with."""

    async def begin(self, hub: WatchHub, resource: ResourceType, options: WatchOptions) -> None:
        """Register, and queue what the client has missed.

        Raises:
            StatusError: 410 when that is no longer known.
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
        matches = self._selection.matches
        for entry in initial:
            if matches(entry):
                self._lines.append(self._line("ADDED", entry, None))
        if changes:
            self._seen = changes[0].revision - 1
            for change in changes:
                self._take(change)
        self._seen = storage.revision
        if options.initial_bookmark:
            self._lines.append(self._bookmark(initial_end=True))

    def initial_lines(self) -> list[bytes]:
        """The events queued by `begin`, to be sent before `go`."""
        lines, self._lines = self._lines, []
        return lines

    def go(self) -> None:
        """From now on events are sent as they come; first those that came meanwhile."""
        held, self._held = self._held, None
        for change in held or ():
            self._take(change)
        self.flush()

    def offer(self, change: Change) -> None:
        """Hear of a change; it is sent by the next `flush`."""
        if self._held is None:
            self._take(change)
            return
        self._held.append(change)
        entry = change.new or change.old
        self._held_bytes += len(entry.data) if entry else 0
        if self._held_bytes > BACKLOG_BYTES:
            self._overflow()

    def flush(self) -> None:
        """Send what has been offered."""
        if not self._lines or self._held is not None or self._ended.done():
            return
        data = b"".join(self._lines)
        self._lines.clear()
        if self._send(data) > BACKLOG_BYTES:
            self._overflow()

    def _overflow(self) -> None:
        self.overflowed = True
        self.end()

    def _take(self, change: Change) -> None:
        if change.revision <= self._seen:
            return
        self._seen = change.revision
        matches = self._selection.matches
        new, old = change.new, change.old
        passes = new is not None and matches(new)
        passed = old is not None and matches(old)
        if passes:
            assert new is not None
            self._lines.append(self._line("MODIFIED" if passed else "ADDED", new, change))
        elif passed:
            self._lines.append(self._line("DELETED", change.tombstone, change))

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
        """Say that everything up to a revision has been sent."""
        if self._held is None and not self._ended.done():
            self._seen = max(self._seen, revision)
            self._lines.append(self._bookmark())
            self.flush()

    def fail(self, error: StatusError) -> None:
        """Tell the client why the stream ends, and end it."""
        self._lines.append(_event("ERROR", encode(error.status())))
        self.flush()
        self.end()

    def end(self) -> None:
        """Let the stream end."""
        if not self._ended.done():
            self._ended.set_result(None)

    async def wait(self, options: WatchOptions) -> None:
        """Wait for the end: by `end`, by the client or by the clock; bookmarks on the way."""
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

    def close(self) -> None:
        """Leave the hub."""
        self.end()
        if self._hub is not None:
            self._hub.remove(self)


def _event(kind: str, obj: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), obj)


class WatchHub:
    """Spreads committed changes among the watches.

    Attributes:
        storage: where the changes come from.
        reached: revision up to which all watches have been told everything.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.reached = storage.revision
        self._watches: dict[str, set[Watch]] = {}
        self._resource_of: dict[Watch, str] = {}
        storage.subscribe(self._spread)

    def __len__(self) -> int:
        return len(self._resource_of)

    def add(self, identifier: str, watch: Watch) -> None:
        """Let a watch hear of a resource's changes."""
        self._watches.setdefault(identifier, set()).add(watch)
        self._resource_of[watch] = identifier

    def remove(self, watch: Watch) -> None:
        """Undo `add`."""
        identifier = self._resource_of.pop(watch, None)
        if identifier is not None:
            self._watches[identifier].discard(watch)

    def end(self, identifier: str) -> None:
        """End the watches of a resource that is no longer served."""
        for watch in tuple(self._watches.get(identifier, ())):
            watch.end()

    def close(self) -> None:
        """End all watches."""
        self.storage.unsubscribe(self._spread)
        for watch in tuple(self._resource_of):
            watch.end()

    def _spread(self, changes: Sequence[Change]) -> None:
        touched: set[Watch] = set()
        for change in changes:
            watches = self._watches.get(change.resource)
            if watches:
                for watch in watches:
                    watch.offer(change)
                touched |= watches
        self.reached = changes[-1].revision
        for watch in touched:
            watch.flush()
        for change in changes:  # the past is kept for long, its encodings are not
            change.lines.clear()


def error_line(error: StatusError) -> bytes:
    """A watch stream that consists of a refusal only."""
    return _event("ERROR", encode(error.status()))
