"""Which parts of a wanted state count, and whether they change anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import causes
from .codec import clone
from .errors import conflict, invalid

if TYPE_CHECKING:
    from .registry import ResourceType
    from .storage import Entry

__all__ = [
    "OWNED_BY_SERVER",
    "content_changed",
    "keep_identity",
    "status_part",
    "unchanged",
    "without_status",
]

Document = dict[str, Any]

OWNED_BY_SERVER = (
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "generateName",
    "selfLink",
    "uid",
)
"""Metadata no writer may change."""


def keep_identity(resource: ResourceType, entry: Entry, new: Document) -> None:
    """Take over from the stored object what no writer may change.

    Args:
        resource: what it is.
        entry: the stored state.
        new: the wanted state; changed in place.

    Raises:
        StatusError: 409 when another state or another object of the name was meant; 422 for new
            finalizers on an object that is going.
    """
    metadata, old = new["metadata"], entry.obj["metadata"]
    given = metadata.get("resourceVersion")
    if given and given != str(entry.revision):
        raise conflict(resource.plural, resource.group, old["name"])
    uid = metadata.get("uid")
    if uid and uid != old["uid"]:
        raise conflict(
            resource.plural,
            resource.group,
            old["name"],
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['uid']}",
        )
    for field in OWNED_BY_SERVER:
        if field in old:
            metadata[field] = old[field]
        else:
            metadata.pop(field, None)
    metadata["resourceVersion"] = old["resourceVersion"]
    if old.get("deletionTimestamp") is not None:
        before = old.get("finalizers") or []
        added = [name for name in metadata.get("finalizers") or [] if name not in before]
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            cause = causes.forbidden("metadata.finalizers", detail)
            raise invalid(resource.group, resource.kind, old["name"], [cause])


def without_status(new: Document, old: Document) -> Document:
    """The new object with the old status."""
    if "status" in old:
        new["status"] = clone(old["status"])
    else:
        new.pop("status", None)
    return new


def status_part(resource: ResourceType, new: Document, old: Document) -> Document:
    """The old object with the new status; built-in kinds take labels and such along."""
    result: Document = clone(old)
    if resource.custom is not None:
        managed = new["metadata"].get("managedFields")
        if managed is not None:
            result["metadata"]["managedFields"] = managed
    else:
        result["metadata"] = new["metadata"]
    result.pop("status", None)
    if "status" in new:
        result["status"] = new["status"]
    elif resource.custom is None:
        result["status"] = {}
    return result


def content_changed(resource: ResourceType, new: Document, old: Document) -> bool:
    """Whether what is wanted changed, so that the generation rises."""
    if resource.generation == "spec":
        return bool(new.get("spec") != old.get("spec"))
    ignored = {"metadata", "apiVersion", "kind"} | ({"status"} if resource.status else set())
    return any(new.get(field) != old.get(field) for field in (new.keys() | old.keys()) - ignored)


def unchanged(new: Document, old: Document) -> bool:
    """Whether nothing changed that would change who owns what."""
    if new.keys() != old.keys():
        return False
    for field, value in new.items():
        if field != "metadata" and value != old[field]:
            return False
    mine, theirs = new["metadata"], old["metadata"]
    if "managedFields" in mine and mine["managedFields"] != theirs.get("managedFields"):
        return False
    ignored = {"managedFields"}
    return all(
        mine.get(field) == theirs.get(field) for field in (mine.keys() | theirs.keys()) - ignored
    )
