"""The state of the cluster: current objects, one revision counter, recent changes.

Everything happens on the event loop's thread, so a write needs no lock. Objects are immutable once
written: an update stores a new document, and readers may keep the old one. An object is encoded
once, and the bytes are shared by all readers and watchers.

With a file, the writes of one iteration of the loop are one SQLite transaction; neither the writer
nor a watcher sees them before it is committed. History is kept in memory only: after a restart,
old watches get 410 and the clients list again.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values.codec import decode, encode
from traincrew.local.apiserver.values.limits import refuse_large

from .sqlite import Row, SqliteFile, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from pathlib import Path

__all__ = ["HISTORY", "Change", "CompactedError", "Entry", "Key", "Storage", "StorageError"]

Key = tuple[str, str]  # (namespace, name); cluster-scoped objects have the namespace ""

HISTORY = 20_000
MAX_DECODED = 256
"""How many objects are kept decoded: the most recently used."""

MAX_DECODED_BYTES = 8 * 1024 * 1024
"""Bytes of the objects that are kept decoded, as JSON; decoded they may take ten times as much."""


class CompactedError(Exception):
    """The requested revision is older than the history."""


class Entry:
    """One revision of one object.

    It holds the JSON, which is small and which the garbage collector never has to traverse. The
    decoded document is kept only while the object is in use.
    """

    __slots__ = ("_obj", "data", "hidden", "key", "revision")

    def __init__(
        self, key: Key, revision: int, obj: dict[str, Any] | None, data: bytes | None = None
    ) -> None:
        self.key = key
        self.revision = revision
        self.data = encode(obj) if data is None else data
        """The object as JSON."""
        self.hidden: tuple[str, ...] = ()
        """Fields that upstream stores differently from what is read; not in the file."""
        self._obj = obj
        if obj is not None:
            self._keep_decoded()

    @property
    def obj(self) -> dict[str, Any]:
        """The object. It is shared: never change it, use `copy` instead."""
        obj = self._obj
        if obj is None:
            obj = self._obj = decode(self.data)
            self._keep_decoded()
        return obj

    def copy(self) -> dict[str, Any]:
        """Return a copy of the object, which the caller may change."""
        copied: dict[str, Any] = decode(self.data)
        return copied

    def _keep_decoded(self) -> None:
        _DECODED.add(self)


class _Decoded:
    """The objects that are kept decoded, the longest kept one first."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._size = 0

    def add(self, entry: Entry) -> None:
        """Add an entry, and drop the documents of others if they are too many."""
        entries = self._entries
        entries.append(entry)
        self._size += len(entry.data)
        while len(entries) > MAX_DECODED or (self._size > MAX_DECODED_BYTES and len(entries) > 1):
            dropped = entries.popleft()
            dropped._obj = None  # noqa: SLF001 - a class of this module
            self._size -= len(dropped.data)


_DECODED = _Decoded()


class Change:
    """One write: the object before and after it."""

    __slots__ = ("_tombstone", "lines", "new", "old", "resource", "revision")

    def __init__(self, revision: int, resource: str, old: Entry | None, new: Entry | None) -> None:
        self.revision = revision
        self.resource = resource
        self.old = old
        self.new = new
        self.lines: dict[Hashable, bytes] = {}
        """Encoded watch events, shared by all watchers with the same representation."""
        self._tombstone: Entry | None = None

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        entry = self.new or self.old
        assert entry is not None
        return entry.key

    @property
    def tombstone(self) -> Entry:
        """The object before the write with the write's revision, as in a DELETED event."""
        if self._tombstone is None:
            assert self.old is not None
            self._tombstone = _with_revision(self.old.key, self.old.obj, self.revision)
        return self._tombstone


def _with_revision(key: Key, obj: dict[str, Any], revision: int) -> Entry:
    metadata = obj["metadata"] | {"resourceVersion": str(revision)}
    return Entry(key, revision, obj | {"metadata": metadata})


class _Table:
    """The objects of one resource, in key order."""

    __slots__ = ("_order", "entries")

    def __init__(self) -> None:
        self.entries: dict[Key, Entry] = {}
        self._order: list[Key] | None = []

    def set(self, key: Key, entry: Entry | None) -> None:
        if entry is None:
            del self.entries[key]
            self._order = None
        else:
            if key not in self.entries:
                self._order = None
            self.entries[key] = entry

    def order(self) -> list[Key]:
        if self._order is None:
            self._order = sorted(self.entries)
        return self._order

    def scan(self, namespace: str | None) -> list[Entry]:
        order = self.order()
        if namespace is not None:
            order = order[
                bisect_left(order, (namespace, "")) : bisect_left(order, (namespace + "\0", ""))
            ]
        entries = self.entries
        return [entries[key] for key in order]


class Storage:
    """The current objects in memory, optionally kept in a file, and the last changes.

    Args:
        path: SQLite file; created if missing. Without it nothing outlives the process.
        history: how many changes are kept for watches.

    Raises:
        StorageError: the file cannot be opened, is not a cluster file, or is in use by another
            process.

    Attributes:
        revision: revision of the last write; 0 in a new storage.
        floor: the oldest revision from which a watch or a list can start.
    """

    def __init__(self, path: Path | None = None, *, history: int = HISTORY) -> None:
        self._tables: dict[str, _Table] = {}
        self._history: deque[Change] = deque()
        self._limit = history
        self._listeners: list[Callable[[Sequence[Change]], None]] = []
        self._pending: list[Change] = []
        self._flushing: asyncio.Handle | None = None
        self._committed: asyncio.Future[None] | None = None
        self._file: SqliteFile | None = None
        self.revision = 0
        if path is not None:
            self._file = SqliteFile(path)
            self.revision = self._file.revision
            try:
                for row in self._file.rows():
                    key = (row.namespace, row.name)
                    self._table(row.resource).set(key, Entry(key, row.revision, None, row.data))
            except BaseException:
                self._file.close()
                raise
        self.floor = self.revision

    # -- reading

    def get(self, resource: str, key: Key) -> Entry | None:
        """Return the current state of one object; None if it does not exist."""
        table = self._tables.get(resource)
        return table.entries.get(key) if table else None

    def scan(self, resource: str, namespace: str | None = None) -> list[Entry]:
        """Return all objects (of a namespace), ordered by namespace and name."""
        table = self._tables.get(resource)
        return table.scan(namespace) if table else []

    def scan_at(self, resource: str, namespace: str | None, revision: int) -> list[Entry]:
        """Return all objects (of a namespace) as they were at a revision.

        Raises:
            CompactedError: the revision is below `floor`.
        """
        earlier: dict[Key, Entry | None] = {}
        for change in self._since(revision):
            if change.resource == resource and (namespace is None or change.key[0] == namespace):
                earlier.setdefault(change.key, change.old)
        if not earlier:
            return self.scan(resource, namespace)
        entries = {entry.key: entry for entry in self.scan(resource, namespace)}
        for key, entry in earlier.items():
            if entry is None:
                entries.pop(key, None)
            else:
                entries[key] = entry
        return [entries[key] for key in sorted(entries)]

    def changes(self, resource: str, since: int) -> list[Change]:
        """Return the changes of a resource after a revision, oldest first.

        Raises:
            CompactedError: the revision is below `floor`.
        """
        return [change for change in self._since(since) if change.resource == resource]

    def _since(self, revision: int) -> list[Change]:
        if revision < self.floor:
            raise CompactedError
        newer: list[Change] = []
        for change in reversed(self._history):
            if change.revision <= revision:
                break
            newer.append(change)
        newer.reverse()
        return newer

    def resources(self) -> Iterator[str]:
        """Return the identifiers of the resources that have objects."""
        return (name for name, table in self._tables.items() if table.entries)

    # -- writing

    def put(
        self,
        resource: str,
        key: Key,
        obj: dict[str, Any],
        *,
        hidden: tuple[str, ...] = (),
        limited: bool = False,
    ) -> Entry:
        """Store a new state of an object; set ``metadata.resourceVersion`` in the document.

        Args:
            resource: identifier of the resource.
            key: namespace and name.
            obj: its new state.
            hidden: see `Entry`.
            limited: whether to refuse an object that is too large: what clients write, but not the
                server's own changes of it.

        Raises:
            StatusError: 413 for an object that is too large.
        """
        revision = self.revision + 1
        obj["metadata"]["resourceVersion"] = str(revision)
        entry = Entry(key, revision, obj)
        if limited:
            refuse_large(entry.data)
        self.revision = revision
        entry.hidden = hidden
        self._record(resource, key, entry)
        return entry

    def delete(self, resource: str, key: Key, obj: dict[str, Any] | None = None) -> Entry:
        """Delete an object.

        Args:
            resource: identifier of the resource.
            key: namespace and name.
            obj: its final state, when that is not the stored one.

        Returns:
            The last state, with the revision of the deletion.
        """
        self.revision += 1
        change = self._record(resource, key, None)
        if obj is not None:
            change._tombstone = _with_revision(key, obj, self.revision)  # noqa: SLF001 - own class
        return change.tombstone

    def amend(self, resource: str, entry: Entry, obj: dict[str, Any]) -> None:
        """Replace the current state of an object as if it had always been like this.

        The revision stays, watchers get no event, and the file is left unchanged.
        """
        self._table(resource).set(entry.key, Entry(entry.key, entry.revision, obj))

    def _table(self, resource: str) -> _Table:
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = _Table()
        return table

    def _record(self, resource: str, key: Key, entry: Entry | None) -> Change:
        table = self._table(resource)
        change = Change(self.revision, resource, table.entries.get(key), entry)
        table.set(key, entry)
        self._history.append(change)
        if len(self._history) > self._limit:
            self.floor = self._history.popleft().revision
        self._pending.append(change)
        if self._flushing is None:
            loop = asyncio.get_running_loop()
            self._flushing = loop.call_soon(self._flush)
            if self._file is not None:
                self._committed = loop.create_future()
        return change

    def subscribe(self, listener: Callable[[Sequence[Change]], None]) -> None:
        """Call a listener with every batch of committed changes, once, in order."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Callable[[Sequence[Change]], None]) -> None:
        """Stop calling a listener; a repeated call has no effect."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    @property
    def committed(self) -> asyncio.Future[None] | None:
        """A future to await before reporting the current state; None when everything is committed.

        Raises, when awaited:
            StorageError: the write failed and was rolled back.
        """
        return self._committed

    def flush(self) -> None:
        """Commit now instead of at the end of this iteration of the loop."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flush()

    def _flush(self) -> None:
        changes, self._pending = self._pending, []
        self._flushing = None
        committed, self._committed = self._committed, None
        if self._file is not None:
            assert committed is not None
            try:
                self._file.write(self.revision, (self._row(change) for change in changes))
            except StorageError as error:
                self._undo(changes)
                committed.set_exception(error)
                committed.exception()  # so that asyncio does not log it if it is never awaited
                return
            committed.set_result(None)
        for listener in tuple(self._listeners):
            listener(changes)

    @staticmethod
    def _row(change: Change) -> Row:
        namespace, name = change.key
        data = change.new.data if change.new else None
        return Row(change.resource, namespace, name, change.revision, data)

    def _undo(self, changes: Sequence[Change]) -> None:
        for change in reversed(changes):
            table = self._table(change.resource)
            if change.old is not None or change.key in table.entries:
                table.set(change.key, change.old)
            if self._history and self._history[-1] is change:
                self._history.pop()

    def close(self) -> None:
        """Commit pending changes and close the file."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None
