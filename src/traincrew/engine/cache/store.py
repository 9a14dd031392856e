"""An indexed cache of typed views.

One event loop reads and writes it, so there are no locks; views are frozen, so nothing is copied.
Only the reflector writes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from traincrew.engine.objects import HasMetadata

if TYPE_CHECKING:
    import builtins

T = TypeVar("T", bound=HasMetadata)

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""

Indexer = Callable[[T], Iterable[str]]

OWNER_INDEX = "owner"
"""Built into every store: the UIDs of an object's owners."""


class Store(Generic[T]):
    """Objects by namespace and name, with inverted indices.

    Args:
        indexers: Further indices: name -> function from an object to its index values. The
            function must be pure. The index ``owner`` (owner UIDs) is always there.

    Raises:
        ValueError: An indexer is named ``owner``.
    """

    def __init__(self, indexers: Mapping[str, Indexer[T]] | None = None) -> None:
        if indexers and OWNER_INDEX in indexers:
            raise ValueError(f"index {OWNER_INDEX!r} is built in; choose another name")
        self._objects: dict[Key, T] = {}
        self._owners: dict[str, dict[Key, T]] = {}
        self._indices = {name: dict[str, dict[Key, T]]() for name in indexers or {}}
        self._indexers = [
            (indexer, self._indices[name]) for name, indexer in (indexers or {}).items()
        ]
        self._indices[OWNER_INDEX] = self._owners
        self.resource_version = ""

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str | None, name: str) -> T | None:
        """Return the object, or ``None``."""
        return self._objects.get((namespace or "", name))

    def list(self, namespace: str | None = None) -> list[T]:
        """Return all objects, or those of one namespace."""
        if namespace is None:
            return list(self._objects.values())
        return [obj for key, obj in self._objects.items() if key[0] == namespace]

    def keys(self) -> set[Key]:
        """Return all keys, as a copy."""
        return set(self._objects)

    def by_index(self, index: str, value: str) -> builtins.list[T]:
        """Return the objects for which an indexer returned this value.

        Raises:
            KeyError: No such index.
        """
        bucket = self._indices[index].get(value)
        return list(bucket.values()) if bucket else []

    def put(self, obj: T) -> T | None:
        """Insert or replace an object; return the previous one."""
        metadata = obj.metadata
        key = (metadata.namespace, metadata.name)
        old = self._objects.get(key)
        self._objects[key] = obj
        owners = metadata.owner_references
        if old is not None and (before := old.metadata.owner_references) is not owners:
            for reference in before:
                _drop(self._owners, reference.uid, key)
        for reference in owners:
            _add(self._owners, reference.uid, key, obj)
        for indexer, index in self._indexers:
            if old is not None:
                for value in indexer(old):
                    _drop(index, value, key)
            for value in indexer(obj):
                _add(index, value, key, obj)
        return old

    def remove(self, key: Key) -> T | None:
        """Delete an object and return it."""
        old = self._objects.pop(key, None)
        if old is not None:
            for reference in old.metadata.owner_references:
                _drop(self._owners, reference.uid, key)
            for indexer, index in self._indexers:
                for value in indexer(old):
                    _drop(index, value, key)
        return old


def _add(index: dict[str, dict[Key, T]], value: str, key: Key, obj: T) -> None:
    bucket = index.get(value)
    if bucket is None:
        index[value] = {key: obj}
    else:
        bucket[key] = obj


def _drop(index: dict[str, dict[Key, T]], value: str, key: Key) -> None:
    bucket = index.get(value)
    if bucket is not None:
        bucket.pop(key, None)
        if not bucket:
            del index[value]
