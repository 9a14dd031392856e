"""The graph of owners and dependents across all resources. Plain data, no I/O.

Ownership is by UID. An object may reference an owner that was not seen (yet): the edge exists all
the same, and the collector checks with the server before it treats the owner as absent. What is not
in the graph is unknown, not absent; only deletions that a watch has reported are remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from traincrew.engine.objects import FullObjectMeta, OwnerReference
    from traincrew.engine.resources import Resource

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_REMEMBERED = 5000


class Item(Struct, frozen=True):
    """The part of an object that garbage collection needs."""

    resource: Resource
    metadata: FullObjectMeta

    @property
    def uid(self) -> str:
        """Its UID."""
        return self.metadata.uid

    @property
    def owners(self) -> tuple[OwnerReference, ...]:
        """Its owner references."""
        return self.metadata.owner_references

    @property
    def is_deleting(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def orphans_dependents(self) -> bool:
        """Whether it waits until its dependents are orphaned."""
        return self.is_deleting and ORPHAN in self.metadata.finalizers

    @property
    def awaits_dependents(self) -> bool:
        """Whether it waits until its dependents are gone (foreground deletion)."""
        return self.is_deleting and FOREGROUND in self.metadata.finalizers

    def is_named_by(self, reference: OwnerReference) -> bool:
        """Return whether an owner reference names this object, in any version of its group."""
        return (
            reference.uid == self.uid
            and reference.name == self.metadata.name
            and reference.kind == self.resource.kind
            and reference.api_version.rpartition("/")[0] == self.resource.group
        )

    def blocks(self, owner_uid: str) -> bool:
        """Return whether the foreground deletion of this owner has to wait for the object."""
        return any(owner.uid == owner_uid and owner.block_owner_deletion for owner in self.owners)


def is_in_reach(owner: Item, dependent: Item) -> bool:
    """Return whether the owner is cluster-scoped or in the namespace of the dependent."""
    return owner.metadata.namespace in {"", dependent.metadata.namespace}


class Graph:
    """All objects by UID, and the edges between them."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._gone: OrderedDict[str, Item] = OrderedDict()

    def get(self, uid: str) -> Item | None:
        """Return the object, or None."""
        return self._items.get(uid)

    def dependents(self, uid: str) -> list[Item]:
        """Return the objects that have `uid` as an owner."""
        return [self._items[dependent] for dependent in self._dependents.get(uid, ())]

    def was_deleted(self, reference: OwnerReference, dependent: Item) -> bool:
        """Return whether a watch has reported the deletion of exactly this owner.

        UIDs are never reused (upstream's `absentOwnerCache`).
        """
        owner = self._gone.get(reference.uid)
        return owner is not None and owner.is_named_by(reference) and is_in_reach(owner, dependent)

    def put(self, item: Item) -> set[str]:
        """Store the state of an object; return the UIDs that have to be reconciled as a result."""
        uid = item.uid
        old = self._items.get(uid)
        self._items[uid] = item
        before = {owner.uid for owner in old.owners} if old is not None else set()
        after = {owner.uid for owner in item.owners}
        for owner in before - after:
            self._unlink(owner, uid)
        for owner in after - before:
            self._dependents.setdefault(owner, {})[uid] = None
        due = set()
        if item.orphans_dependents or item.awaits_dependents:
            due.add(uid)
            if old is None or not old.is_deleting:
                due.update(self._dependents.get(uid, ()))
        if not item.is_deleting and any(
            self._is_doubtful(reference, item) for reference in item.owners
        ):
            due.add(uid)
        due.update(owner for owner in before | after if self._waits(owner))
        return due

    def remove(self, uid: str, *, deleted: bool) -> set[str]:
        """Remove an object; return the UIDs that have to be reconciled as a result.

        Args:
            uid: UID of the object.
            deleted: The server has reported its deletion; otherwise it is no longer watched, or
                missing from a list, and may still exist.
        """
        item = self._items.pop(uid, None)
        if item is None:
            return set()
        if deleted:
            self._gone[uid] = item
            if len(self._gone) > _REMEMBERED:
                self._gone.popitem(last=False)
        due = set(self._dependents.get(uid, ()))
        for owner in {owner.uid for owner in item.owners}:
            self._unlink(owner, uid)
            if self._waits(owner):
                due.add(owner)
        return due

    def _unlink(self, owner: str, dependent: str) -> None:
        dependents = self._dependents.get(owner)
        if dependents is not None:
            dependents.pop(dependent, None)
            if not dependents:
                del self._dependents[owner]

    def _is_doubtful(self, reference: OwnerReference, dependent: Item) -> bool:
        """Return whether the owner is unknown, out of reach, or waiting for its dependents."""
        owner = self._items.get(reference.uid)
        return (
            owner is None
            or owner.awaits_dependents
            or not owner.is_named_by(reference)
            or not is_in_reach(owner, dependent)
        )

    def _waits(self, uid: str) -> bool:
        item = self._items.get(uid)
        return item is not None and (item.awaits_dependents or item.orphans_dependents)
