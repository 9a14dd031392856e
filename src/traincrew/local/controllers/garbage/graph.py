"""Who owns whom, across all resources. Plain data, no I/O.

Ownership goes by UID. An object may name an owner nobody has seen (yet): the edge is there all the
same, and the collector asks the server before it believes that the owner does not exist.
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
    """An object, as far as garbage collection is concerned."""

    resource: Resource
    metadata: FullObjectMeta

    @property
    def uid(self) -> str:
        """Its UID."""
        return self.metadata.uid

    @property
    def owners(self) -> list[OwnerReference]:
        """Its owner references."""
        return self.metadata.owner_references

    @property
    def is_deleting(self) -> bool:
        """Whether its deletion was asked for."""
        return self.metadata.deletion_timestamp is not None

    @property
    def orphans_dependents(self) -> bool:
        """Whether it waits until its dependents are let go."""
        return self.is_deleting and ORPHAN in self.metadata.finalizers

    @property
    def awaits_dependents(self) -> bool:
        """Whether it waits until its dependents are gone (foreground deletion)."""
        return self.is_deleting and FOREGROUND in self.metadata.finalizers

    def blocks(self, owner_uid: str) -> bool:
        """Whether the foreground deletion of that owner has to wait for this object."""
        return any(owner.uid == owner_uid and owner.block_owner_deletion for owner in self.owners)


def is_in_reach(owner: Item, dependent: Item) -> bool:
    """Whether the owner is cluster-scoped or in the namespace of the dependent."""
    return owner.metadata.namespace in {"", dependent.metadata.namespace}


class Graph:
    """All objects by UID, and the edges between them."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._namespaces: dict[str, dict[str, None]] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()

    def get(self, uid: str) -> Item | None:
        """The object, or None."""
        return self._items.get(uid)

    def dependents(self, uid: str) -> list[Item]:
        """Objects that name `uid` as an owner."""
        return [self._items[dependent] for dependent in self._dependents.get(uid, ())]

    def content(self, namespace: str) -> list[Item]:
        """Everything in a namespace."""
        return [self._items[uid] for uid in self._namespaces.get(namespace, ())]

    def was_deleted(self, uid: str) -> bool:
        """Whether an object of that UID was seen to go; UIDs never come back."""
        return uid in self._gone

    def put(self, item: Item) -> set[str]:
        """Take over a state; returns the UIDs that have to be looked at because of it."""
        uid = item.uid
        old = self._items.get(uid)
        self._items[uid] = item
        if item.metadata.namespace:
            self._namespaces.setdefault(item.metadata.namespace, {})[uid] = None
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
        if not item.is_deleting and any(self._is_doubtful(owner, item) for owner in after):
            due.add(uid)
        due.update(owner for owner in before | after if self._waits(owner))
        return due

    def remove(self, uid: str) -> set[str]:
        """Forget an object; returns the UIDs that have to be looked at because of it."""
        item = self._items.pop(uid, None)
        if item is None:
            return set()
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)
        content = self._namespaces.get(item.metadata.namespace)
        if content is not None:
            content.pop(uid, None)
            if not content:
                del self._namespaces[item.metadata.namespace]
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

    def _is_doubtful(self, uid: str, dependent: Item) -> bool:
        """Whether that owner is unknown, out of reach, or going together with its dependents."""
        owner = self._items.get(uid)
        return owner is None or owner.awaits_dependents or not is_in_reach(owner, dependent)

    def _waits(self, uid: str) -> bool:
        item = self._items.get(uid)
        return item is not None and (item.awaits_dependents or item.orphans_dependents)
