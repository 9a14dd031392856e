"""What the storage consists of: revisions of objects, changes, and the objects of one resource."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.local.apiserver.values.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["Change", "Entry", "Key", "Row", "StorageError", "Table"]

Key = tuple[str, str]  # (namespace, name); cluster-scoped objects have the namespace ""

MAX_DECODED = 256
"""How many objects are kept decoded: the most recently used."""

MAX_DECODED_BYTES = 8 * 1024 * 1024
"""Bytes of the objects that are kept decoded, as JSON; decoded they may take ten times as much."""


class StorageError(Exception):
    """The file cannot be opened or written; the message names the file and the reason."""


class Row(NamedTuple):
    """One object in the file; `data` is None to delete it."""

    resource: str
    namespace: str
    name: str
    revision: int
    data: bytes | None


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

    def set_tombstone(self, obj: dict[str, Any]) -> None:
        """Set the final state of a deleted object, which differs from the stored one."""
        self._tombstone = _with_revision(self.key, obj, self.revision)


def _with_revision(key: Key, obj: dict[str, Any], revision: int) -> Entry:
    metadata = obj["metadata"] | {"resourceVersion": str(revision)}
    return Entry(key, revision, obj | {"metadata": metadata})


class Table:
    """The objects of one resource, in key order."""

    __slots__ = ("_order", "entries")

    def __init__(self) -> None:
        self.entries: dict[Key, Entry] = {}
        self._order: list[Key] | None = []

    def set(self, key: Key, entry: Entry | None) -> None:
        """Store a revision of an object; None deletes it."""
        if entry is None:
            del self.entries[key]
            self._order = None
        else:
            if key not in self.entries:
                self._order = None
            self.entries[key] = entry

    def _keys(self) -> list[Key]:
        if self._order is None:
            self._order = sorted(self.entries)
        return self._order

    def scan(self, namespace: str | None) -> list[Entry]:
        """Return all objects, or those of a namespace, in key order."""
        order = self._keys()
        if namespace is not None:
            order = order[
                bisect_left(order, (namespace, "")) : bisect_left(order, (namespace + "\0", ""))
            ]
        entries = self.entries
        return [entries[key] for key in order]
