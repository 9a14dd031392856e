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
from collections import deque
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values.limits import refuse_large

from .entries import Change, Entry, Key, Row, StorageError, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from .sqlite import SqliteFile

__all__ = ["HISTORY", "Change", "CompactedError", "Entry", "Key", "Storage", "StorageError"]

HISTORY = 20_000


class CompactedError(Exception):
    """The requested revision is older than the history."""


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
        self._tables: dict[str, Table] = {}
        self._history: deque[Change] = deque()
        self._limit = history
        self._listeners: list[Callable[[Sequence[Change]], None]] = []
        self._pending: list[Change] = []
        self._flushing: asyncio.Handle | None = None
        self._committed: asyncio.Future[None] | None = None
        self._file: SqliteFile | None = None
        self.revision = 0
        if path is not None:
            from .sqlite import SqliteFile

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

    def count(self, resource: str) -> int:
        """Return the number of objects of a resource."""
        table = self._tables.get(resource)
        return 0 if table is None else len(table.entries)

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
            change.set_tombstone(obj)
        return change.tombstone

    def amend(self, resource: str, entry: Entry, obj: dict[str, Any]) -> None:
        """Replace the current state of an object as if it had always been like this.

        The revision stays, watchers get no event, and the file is left unchanged.
        """
        self._table(resource).set(entry.key, Entry(entry.key, entry.revision, obj))

    def _table(self, resource: str) -> Table:
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = Table()
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
