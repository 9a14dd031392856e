"""Which parts of a wanted state count, and whether they change anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import causes
from .codec import clone
from .errors import conflict, invalid

if TYPE_CHECKING:
    from .nodes import Node
    from .registry import ResourceType
    from .storage import Entry

__all__ = [
    "OWNED_BY_SERVER",
    "content_changed",
    "emptied",
    "keep_identity",
    "keep_times",
    "status_part",
    "without_status",
]

Document = dict[str, Any]

OWNED_BY_SERVER = (
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
    "uid",
)
"""Metadata no writer may change."""


def keep_identity(
    resource: ResourceType, entry: Entry, new: Document, *, patched: bool = False
) -> None:
    """Take over from the stored object what no writer may change.

    Args:
        resource: what it is.
        entry: the stored state.
        new: the wanted state; changed in place.
        patched: whether the writer sent changes, not the whole object.

    Raises:
        StatusError: 409 when another state or another object of the name was meant; 422 when a
            patch changes the uid.
    """
    metadata, old = new["metadata"], entry.obj["metadata"]
    uid = metadata.get("uid")
    if uid and uid != old["uid"]:
        if patched:
            cause = causes.invalid("metadata.uid", uid, "field is immutable")
            raise invalid(resource.group, resource.kind, old["name"], [cause])
        raise conflict(
            resource.plural,
            resource.group,
            old["name"],
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['uid']}",
        )
    given = metadata.get("resourceVersion")
    if given and given != str(entry.revision):
        raise conflict(resource.plural, resource.group, old["name"])
    for field in OWNED_BY_SERVER:
        if field in old:
            metadata[field] = old[field]
        else:
            metadata.pop(field, None)
    metadata["resourceVersion"] = old["resourceVersion"]


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
        if resource.identifier == "deployments.apps":
            _restore(result["metadata"], old["metadata"], "labels")
    result.pop("status", None)
    if "status" in new:
        result["status"] = new["status"]
    elif resource.custom is None:
        result["status"] = {}
    return result


def emptied(resource: ResourceType, document: Document) -> frozenset[str]:
    """The fields in which a document that is not pruned yet has lists or maps without entries."""
    if not resource.tells_empty:
        return frozenset()
    node = resource.schema.node
    return frozenset(
        name
        for name in resource.tells_empty
        if name in document
        and (
            (document[name] in _EMPTY and node.fields[name].values is not None)
            or _has_empty(node.fields[name], document[name])
        )
    )


# Empty, it gets a default.
_DEFAULTED = frozenset({"policyTypes"})
_EMPTY: tuple[Any, ...] = ({}, [])


def _has_empty(node: Node, value: Any) -> bool:
    """Whether something below would not be stored because it is empty."""
    if type(value) is list:
        items = node.items
        return items is not None and any(_has_empty(items, item) for item in value)
    return type(value) is dict and any(
        (item in _EMPTY and key in node.omit_empty) or _has_empty(node.fields[key], item)
        for key, item in value.items()
        if key in node.fields and key not in _DEFAULTED
    )


def _restore(new: Document, old: Document, field: str) -> None:
    if field in old:
        new[field] = clone(old[field])
    else:
        new.pop(field, None)


def content_changed(
    resource: ResourceType, new: Document, old: Document, sent: frozenset[str] = frozenset()
) -> bool:
    """Whether what is wanted changed, so that the generation rises.

    Args:
        resource: what it is.
        new: the wanted state.
        old: the stored state.
        sent: what `emptied` found.
    """
    if "spec" in sent:
        return True
    if resource.generation == "spec and annotations":
        annotations = [document["metadata"].get("annotations") or {} for document in (new, old)]
        if annotations[0] != annotations[1]:
            return True
    if resource.generation in {"spec", "spec and annotations"}:
        return bool(new.get("spec") != old.get("spec"))
    ignored = {"metadata", "apiVersion", "kind"} | ({"status"} if resource.status else set())
    return any(new.get(field) != old.get(field) for field in (new.keys() | old.keys()) - ignored)


def keep_times(new: Document, old: Document) -> None:
    """Keep the times of ``managedFields`` where nothing else has changed, in place.

    Or a controller that reacts to its own writes would never rest.
    """
    mine, theirs = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if not mine or not theirs or mine == theirs or not _alike_but_times(mine, theirs):
        return
    new["metadata"]["managedFields"] = theirs
    if new != old:
        new["metadata"]["managedFields"] = mine


def _alike_but_times(mine: list[Document], theirs: list[Document]) -> bool:
    def timeless(entry: Document) -> Document:
        return {key: item for key, item in entry.items() if key != "time"}

    return len(mine) == len(theirs) and all(
        timeless(one) == timeless(other) for one, other in zip(mine, theirs, strict=True)
    )
