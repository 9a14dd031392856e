"""Which parts of an update take effect, and whether they change anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values import causes
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.documents import same
from traincrew.local.apiserver.values.errors import conflict, invalid

if TYPE_CHECKING:
    from traincrew.local.apiserver.kinds.strategy import WriteContext
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.schema.node import SchemaNode
    from traincrew.local.apiserver.storage import Entry
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "OWNED_BY_SERVER",
    "content_changed",
    "emptied",
    "keep_identity",
    "keep_times",
    "written_part",
]

OWNED_BY_SERVER = (
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
    "uid",
)
"""Metadata that no client may change."""


def keep_identity(
    resource: ResourceType, entry: Entry, new: Document, *, patched: bool = False
) -> None:
    """Copy from the stored object what no client may change.

    Args:
        resource: resource of the object.
        entry: the stored state.
        new: the desired state; changed in place.
        patched: whether the client sent a patch instead of the whole object.

    Raises:
        StatusError: 409 when the resourceVersion or the UID differs from the stored one; 422 when
            a patch changes the UID.
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


def written_part(
    context: WriteContext,
    resource: ResourceType,
    subresource: str | None,
    new: Document,
    old: Document,
) -> Document:
    """Return the desired object with everything outside the written subresource unchanged.

    Args:
        context: what the rules of a kind may use.
        resource: resource of the object; its status is written by its own subresource.
        subresource: subresource in the path.
        new: the desired state; may be changed.
        old: the stored state.
    """
    part = resource.strategy.parts.get(subresource or "")
    if part is not None:
        return part.written(context, new, old)
    if subresource:
        return _status_part(resource, new, old)
    return _without_status(new, old)


def _without_status(new: Document, old: Document) -> Document:
    """Return the new object with the old status."""
    if "status" in old:
        new["status"] = clone(old["status"])
    else:
        new.pop("status", None)
    return new


def _status_part(resource: ResourceType, new: Document, old: Document) -> Document:
    """Return the old object with the new status; built-in kinds also take the new metadata."""
    result: Document = clone(old)
    if resource.custom is not None:
        managed = new["metadata"].get("managedFields")
        if managed is not None:
            result["metadata"]["managedFields"] = managed
    else:
        result["metadata"] = new["metadata"]
        if "labels" in resource.strategy.reset_by_status:
            _restore(result["metadata"], old["metadata"], "labels")
    result.pop("status", None)
    if "status" in new:
        result["status"] = new["status"]
    elif resource.custom is None:
        result["status"] = {}
    return result


def emptied(resource: ResourceType, document: Document) -> frozenset[str]:
    """Return the `significant_empty` fields with empty lists or maps in an unpruned document."""
    if not resource.significant_empty:
        return frozenset()
    node = resource.schema.node
    return frozenset(
        name
        for name in resource.significant_empty
        if name in document
        and (
            (document[name] in _EMPTY and node.fields[name].values is not None)
            or _has_empty(node.fields[name], document[name])
        )
    )


# Gets a default when empty.
_DEFAULTED = frozenset({"policyTypes"})
_EMPTY: tuple[Any, ...] = ({}, [])


def _has_empty(node: SchemaNode, value: Any) -> bool:
    """Return whether a nested field would not be stored because it is empty."""
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
    resource: ResourceType,
    new: Document,
    old: Document,
    *,
    sent: frozenset[str] = frozenset(),
    hidden: tuple[str, ...] = (),
) -> bool:
    """Return whether the desired state has changed, so that the generation rises.

    Args:
        resource: resource of the object.
        new: the desired state.
        old: the stored state.
        sent: result of `emptied`.
        hidden: result of `decoding.after_apply`.
    """
    if "spec" in sent:
        return True
    if resource.generation == "spec and annotations":
        annotations = [document["metadata"].get("annotations") or {} for document in (new, old)]
        if annotations[0] != annotations[1]:
            return True
    if resource.generation in {"spec", "spec and annotations"}:
        return not same(new.get("spec"), old.get("spec"))
    ignored = {"metadata", "apiVersion", "kind"} | ({"status"} if resource.status else set())
    return bool(set(hidden) - ignored) or any(
        not same(new.get(field), old.get(field)) for field in (new.keys() | old.keys()) - ignored
    )


def keep_times(new: Document, old: Document) -> None:
    """Keep the times of ``managedFields`` if nothing else has changed, in place.

    Otherwise a controller that reacts to its own writes would never settle.
    """
    mine, theirs = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if not mine or not theirs or mine == theirs or not _equal_except_times(mine, theirs):
        return
    new["metadata"]["managedFields"] = theirs
    if not same(new, old):
        new["metadata"]["managedFields"] = mine


def _equal_except_times(mine: list[Document], theirs: list[Document]) -> bool:
    def without_time(entry: Document) -> Document:
        return {key: item for key, item in entry.items() if key != "time"}

    return len(mine) == len(theirs) and all(
        without_time(one) == without_time(other) for one, other in zip(mine, theirs, strict=True)
    )
