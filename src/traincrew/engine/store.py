"""An indexed cache of typed views.

One event loop reads and writes it, so there are no locks; views are frozen, so there are no
copies. Only the reflector writes.
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


def owner_uids(obj: HasMetadata) -> list[str]:
    """Index values of the ``owner`` index."""
    return [reference.uid for reference in obj.metadata.owner_references]


class Store(Generic[T]):
    """Objects by namespace and name, with inverted indices.

    Args:
        indexers: Further indices: name -> function from an object to its index values. The
            function must be pure. The index ``owner`` (owner UIDs) is always there.
    """

    def __init__(self, indexers: Mapping[str, Indexer[T]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._indexers: dict[str, Indexer[T]] = {OWNER_INDEX: owner_uids, **(indexers or {})}
        self._indices: dict[str, dict[str, dict[Key, T]]] = {name: {} for name in self._indexers}
        self._pairs = [(self._indexers[name], self._indices[name]) for name in self._indexers]
        self.resource_version = ""

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str | None, name: str) -> T | None:
        """The object, or ``None``."""
        return self._objects.get((namespace or "", name))

    def list(self, namespace: str | None = None) -> list[T]:
        """All objects, or those of one namespace."""
        if namespace is None:
            return list(self._objects.values())
        return [obj for key, obj in self._objects.items() if key[0] == namespace]

    def keys(self) -> set[Key]:
        """All keys, as a copy."""
        return set(self._objects)

    def by_index(self, index: str, value: str) -> builtins.list[T]:
        """The objects an indexer gave this value.

        Raises:
            KeyError: No such index.
        """
        bucket = self._indices[index].get(value)
        return list(bucket.values()) if bucket else []

    def put(self, obj: T) -> T | None:
        """Insert or replace; returns what was there before."""
        metadata = obj.metadata
        key = (metadata.namespace, metadata.name)
        old = self._objects.get(key)
        self._objects[key] = obj
        for indexer, index in self._pairs:
            values = indexer(obj)
            if old is not None:
                for value in indexer(old):
                    if value not in values:
                        self._drop(index, value, key)
            for value in values:
                bucket = index.get(value)
                if bucket is None:
                    index[value] = {key: obj}
                else:
                    bucket[key] = obj
        return old

    def remove(self, key: Key) -> T | None:
        """Delete; returns what was there."""
        old = self._objects.pop(key, None)
        if old is not None:
            for indexer, index in self._pairs:
                for value in indexer(old):
                    self._drop(index, value, key)
        return old

    @staticmethod
    def _drop(index: dict[str, dict[Key, T]], value: str, key: Key) -> None:
        bucket = index.get(value)
        if bucket is not None:
            bucket.pop(key, None)
            if not bucket:
                del index[value]
