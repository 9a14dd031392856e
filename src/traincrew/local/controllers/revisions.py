"""Revisions of a pod template: what StatefulSets and DaemonSets record of theirs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.controllers.common import owner_reference, short_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from traincrew.engine.objects import AnyObject
    from traincrew.engine.resources import Resource

REVISION_LABEL = "controller-revision-hash"
"""Label of a pod: the ControllerRevision from which it was created."""


def data_of(owner: AnyObject) -> dict[str, Any]:
    """Return what a revision records: a patch that restores the template.

    The fields are in the order in which Go writes them: clients compare the bytes.
    """
    template = owner.spec.get("template") or {}
    data: dict[str, Any] = _sorted({"spec": {"template": {**template, "$patch": "replace"}}})
    return data


def template_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod template that a revision has recorded."""
    template = data.get("spec", {}).get("template", {})
    return {key: value for key, value in template.items() if key != "$patch"}


def in_order(history: Iterable[AnyObject]) -> list[AnyObject]:
    """Return revisions, the oldest first."""
    return sorted(history, key=lambda revision: (revision.revision, revision.metadata.name))


def revision_document(
    owner: AnyObject,
    resource: Resource,
    data: dict[str, Any],
    number: int,
    *,
    hash_label: str,
    collisions: int = 0,
) -> dict[str, Any]:
    """Return a ControllerRevision to create.

    Args:
        owner: The workload.
        resource: Its kind.
        data: Result of `data_of`.
        number: Number of the revision.
        hash_label: Label that gets the hash in its name.
        collisions: How often such a name was taken already.
    """
    digest = short_hash(owner.metadata.uid, data, *([collisions] if collisions else []))
    template = owner.spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{owner.metadata.name}-{digest}",
            "namespace": owner.metadata.namespace,
            "labels": {**labels, hash_label: digest},
            "annotations": dict(owner.metadata.annotations),
            "ownerReferences": [owner_reference(owner, resource)],
        },
        "data": data,
        "revision": number,
    }


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
