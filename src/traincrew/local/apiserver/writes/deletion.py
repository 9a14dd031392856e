"""Deletion of objects: at once, after a grace period, or when the last finalizer is removed.

The rules are those of upstream's ``registry/rest/delete.go`` and ``generic/registry/store.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.requests.objectmeta import mark_deleting, timestamp
from traincrew.local.apiserver.storage import Entry
from traincrew.local.apiserver.values.errors import conflict, forbidden

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import DeleteOptions
    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["Deleted", "Deleter", "should_delete_after_update"]

_ORPHAN = "orphan"
_FOREGROUND = "foregroundDeletion"


class Deleted(NamedTuple):
    """The result of a DELETE: the object's last or current state, and whether it is deleted."""

    entry: Entry
    gone: bool


def should_delete_after_update(resource: ResourceType, obj: Document) -> bool:
    """Return whether an object that is being deleted can be removed after an update."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp") is None or metadata.get("finalizers"):
        return False
    if resource.strategy.spec_finalizers and obj.get("spec", {}).get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _preconditions(resource: ResourceType, obj: Document, options: DeleteOptions) -> None:
    metadata = obj["metadata"]
    for word, field, wanted in (
        ("UID", "uid", options.uid),
        ("ResourceVersion", "resourceVersion", options.resource_version),
    ):
        if wanted is not None and wanted != metadata[field]:
            raise conflict(
                resource.plural,
                resource.group,
                metadata["name"],
                f"Precondition failed: {word} in precondition: {wanted}, "
                f"{word} in object meta: {metadata[field]}",
            )


def _finalizers(resource: ResourceType, metadata: Document, propagation: str | None) -> list[str]:
    """Return the finalizers, with the one for the propagation policy added."""
    current = metadata.get("finalizers") or []
    if propagation is None:
        if _ORPHAN in current or _FOREGROUND in current:
            return list(current)
        propagation = "Orphan" if resource.orphan_by_default else "Background"
    result = [name for name in current if name not in {_ORPHAN, _FOREGROUND}]
    if propagation == "Orphan":
        result.append(_ORPHAN)
    elif propagation == "Foreground":
        result.append(_FOREGROUND)
    return result


class Deleter:
    """Implements DELETE of stored objects.

    Args:
        storage: holds the objects.
        clock: returns seconds since the epoch.
    """

    def __init__(self, storage: Storage, clock: Callable[[], float]) -> None:
        self._storage = storage
        self._clock = clock

    def delete(self, resource: ResourceType, entry: Entry, options: DeleteOptions) -> Deleted:
        """Delete an object, or mark it for deletion.

        Raises:
            StatusError: 403 for the namespaces every cluster has, 409 for a failed precondition.
        """
        obj = entry.copy()
        metadata = obj["metadata"]
        strategy = resource.strategy
        if metadata["name"] in strategy.undeletable:
            detail = f"this {resource.singular} may not be deleted"
            raise forbidden(resource.plural, resource.group, metadata["name"], detail)
        _preconditions(resource, obj, options)
        deleting = metadata.get("deletionTimestamp") is not None
        graceful = False
        if strategy.grace_seconds is not None:
            whole = strategy.grace_seconds(obj, options.grace_seconds)
            graceful, pending = self._grace(obj, options, whole, deleting=deleting)
            if pending:
                return Deleted(entry, gone=False)
        if strategy.begin_deletion is not None and not deleting:
            strategy.begin_deletion(obj, timestamp(self._clock()))
        before = metadata.get("finalizers") or []
        finalizers = _finalizers(resource, metadata, options.propagation)
        if finalizers != before:
            metadata["finalizers"] = finalizers
        if strategy.spec_finalizers and obj["spec"].get("finalizers"):
            if not deleting:
                mark_deleting(metadata, self._clock(), 0)
                del metadata["deletionGracePeriodSeconds"]
                obj.setdefault("status", {})["phase"] = "Terminating"
            return Deleted(self._update(resource, entry, obj, options), gone=False)
        if finalizers:
            if not graceful and not deleting:
                mark_deleting(metadata, self._clock(), 0)
            return Deleted(self._update(resource, entry, obj, options), gone=False)
        if graceful and metadata["deletionGracePeriodSeconds"] > 0:
            return Deleted(self._update(resource, entry, obj, options), gone=False)
        if options.dry_run:
            return Deleted(entry, gone=True)
        if graceful:  # watchers get MODIFIED with the deletion timestamp, then DELETED
            self._update(resource, entry, obj, options)
        return Deleted(self._storage.delete(resource.identifier, entry.key), gone=True)

    def _grace(
        self, obj: Document, options: DeleteOptions, whole: int, *, deleting: bool
    ) -> tuple[bool, bool]:
        """Set the fields of a deletion with a grace period of `whole` seconds.

        Returns:
            Whether they are set, and whether the object is being deleted already without a change.
        """
        metadata = obj["metadata"]
        wanted = options.grace_seconds
        if not deleting:
            mark_deleting(metadata, self._clock(), whole)
            return True, False
        current = metadata.get("deletionGracePeriodSeconds") or 0
        if current == 0:
            return False, False
        if wanted is None or wanted >= current:
            return False, True
        metadata["deletionGracePeriodSeconds"] = max(wanted, 0)
        metadata["deletionTimestamp"] = timestamp(self._clock() + max(wanted, 0))
        return True, False

    def _update(
        self, resource: ResourceType, entry: Entry, obj: Document, options: DeleteOptions
    ) -> Entry:
        if obj == entry.obj:
            return entry
        if options.dry_run:
            return Entry(entry.key, entry.revision, obj)
        return self._storage.put(resource.identifier, entry.key, obj)
