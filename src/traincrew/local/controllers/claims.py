"""Adoption of orphans by a workload, and release of objects that no longer match. Pure.

Ownership is by UID, never by name: a workload that was deleted and recreated under the same name
does not inherit the pods of the old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.engine.objects import controller_of
from traincrew.local.controllers.selectors import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from traincrew.engine.objects import AnyObject, OwnerReference


class Claims(Struct):
    """`mine` is controlled and matches; `adopt` and `release` are to be patched."""

    mine: list[AnyObject] = field(default_factory=list)
    adopt: list[AnyObject] = field(default_factory=list)
    release: list[AnyObject] = field(default_factory=list)


def claim(
    owner: AnyObject,
    selector: Mapping[str, Any] | None,
    controlled: Iterable[AnyObject],
    orphans: Iterable[AnyObject],
    fits: Callable[[AnyObject], bool] = lambda _: True,
) -> Claims:
    """Decide which objects to keep, adopt and release.

    Args:
        owner: The workload. One that is being deleted neither adopts nor releases.
        selector: Its label selector.
        controlled: Objects whose controller reference has its UID.
        orphans: Objects in its namespace that have no controller.
        fits: A further condition for being adopted or kept, such as the name of the pod.
    """
    claims = Claims()
    deleting = owner.metadata.deletion_timestamp is not None
    for obj in controlled:
        if matches(selector, obj.metadata.labels) and fits(obj):
            claims.mine.append(obj)
        elif not deleting:
            claims.release.append(obj)
    if deleting or not selector:
        return claims
    for obj in orphans:
        if (
            obj.metadata.deletion_timestamp is None
            and matches(selector, obj.metadata.labels)
            and fits(obj)
            and controller_of(obj) is None
        ):
            claims.adopt.append(obj)
    return claims


def reference_document(reference: OwnerReference) -> dict[str, Any]:
    """Return an owner reference as JSON."""
    document: dict[str, Any] = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "name": reference.name,
        "uid": reference.uid,
    }
    if reference.controller:
        document["controller"] = True
    if reference.block_owner_deletion:
        document["blockOwnerDeletion"] = True
    return document


def adoption_patch(
    obj: AnyObject, owner: Mapping[str, Any], finalizers: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the merge patch that makes `owner` the controller; fails if the object has changed.

    Args:
        obj: The orphan.
        owner: A controller reference.
        finalizers: Finalizers to add.
    """
    metadata = _guarded(obj)
    metadata["ownerReferences"] = [
        *(reference_document(reference) for reference in obj.metadata.owner_references),
        dict(owner),
    ]
    added = [name for name in finalizers if name not in obj.metadata.finalizers]
    if added:
        metadata["finalizers"] = [*obj.metadata.finalizers, *added]
    return {"metadata": metadata}


def release_patch(
    obj: AnyObject, owner_uids: Iterable[str], finalizers: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the merge patch that removes owners; fails if the object has changed."""
    gone, dropped = set(owner_uids), set(finalizers)
    metadata = _guarded(obj)
    metadata["ownerReferences"] = [
        reference_document(reference)
        for reference in obj.metadata.owner_references
        if reference.uid not in gone
    ]
    if dropped & set(obj.metadata.finalizers):
        metadata["finalizers"] = [name for name in obj.metadata.finalizers if name not in dropped]
    return {"metadata": metadata}


def _guarded(obj: AnyObject) -> dict[str, Any]:
    return {"uid": obj.metadata.uid, "resourceVersion": obj.metadata.resource_version}
