"""The objects of a server at one moment, to which it can return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.apiextensions.status import DEFINITIONS

if TYPE_CHECKING:
    from traincrew.local.apiserver.storage import Entry, Key, Storage

__all__ = ["Snapshot"]


class Snapshot:
    """The objects of a storage.

    Args:
        storage: the storage.
        empty: forget them: to return means to delete everything.
    """

    def __init__(self, storage: Storage, *, empty: bool = False) -> None:
        self._entries: dict[tuple[str, Key], Entry] = {}
        if not empty:
            for resource in storage.resources():
                for entry in storage.scan(resource):
                    self._entries[resource, entry.key] = entry

    def restore(self, storage: Storage) -> None:
        """Delete what was not there, and write again what has changed or is gone.

        Finalizers are ignored. Revisions are new ones: watches see each change.
        """
        # Definitions last: their objects are deleted while watches of them are still served.
        for resource in sorted(storage.resources(), key=lambda each: each == DEFINITIONS):
            for entry in storage.scan(resource):
                if (resource, entry.key) not in self._entries:
                    storage.delete(resource, entry.key)
        for (resource, key), entry in self._entries.items():
            current = storage.get(resource, key)
            if current is None or current.revision != entry.revision:
                self._entries[resource, key] = storage.put(
                    resource, key, entry.copy(), hidden=entry.hidden
                )
