"""Parts of the writes of children: hashes of documents, patches, and stages of writes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from traincrew.plan.shared.model import FINGERPRINT, ChildKey, Patch, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traincrew.plan.shared.model import Observed, Plan
    from traincrew.plan.shared.views import ChildView

Values = dict[tuple[str, ...], Any]
"""Values to set, by the paths of their fields."""
Stages = list[list[Write]]
"""Writes that are made together, one stage after the other."""
_TEMPLATE = ("spec", "template")


def digest(*parts: Any) -> str:
    """Return a short hash of plain data: 16 hexadecimal digits."""
    encoded = msgspec.json.encode(parts, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:16]


def fingerprint(document: dict[str, Any]) -> str:
    """Return the hash in a document's annotations."""
    text: str = document["metadata"]["annotations"][FINGERPRINT]
    return text


def stages(*found: Iterable[Write | None]) -> Stages:
    """Return the stages without empty writes, and without empty stages."""
    kept = [[write for write in stage if write is not None] for stage in found]
    return [stage for stage in kept if stage]


def patch(key: ChildKey, found: ChildView, values: Values) -> Write | None:
    """Return the write that sets fields of a child; None if it is being deleted or none differs."""
    metadata = found.metadata
    if not values or metadata.deletion_timestamp is not None:
        return None
    return Write(
        patch=Patch(key=key, namespace=metadata.namespace, uid=metadata.uid, values=values)
    )


def with_field(
    observed: Observed, document: dict[str, Any], view: type[ChildView], name: str
) -> Write | None:
    """Return the write that creates a child, or replaces a field of it that differs, if any.

    Args:
        observed: The children.
        document: The child.
        view: Its view.
        name: The field, at the top of the document.
    """
    key = ChildKey.of(document)
    found = observed.child(key, view)
    if found is None:
        return Write(create=document)
    wanted = document[name]
    return patch(key, found, {} if getattr(found, name) == wanted else {(name,): wanted})


def with_spec(observed: Observed, document: dict[str, Any]) -> Write | None:
    """Return the write that creates a child, or replaces the fields of its ``spec`` that we write.

    Args:
        observed: The children.
        document: The child, with a fingerprint of its ``spec``.
    """
    key = ChildKey.of(document)
    found = observed.children.get(key)
    if found is None:
        return Write(create=document)
    wanted = fingerprint(document)
    untouched = found.metadata.annotations.get(FINGERPRINT) == wanted
    if untouched and key not in observed.drifted:
        return None
    # Not the whole of it: the API server has added fields, of which some are immutable.
    values: Values = {("spec", name): value for name, value in document["spec"].items()}
    return patch(key, found, values | annotate(found, {FINGERPRINT: wanted}))


def annotate(found: ChildView, texts: dict[str, str]) -> Values:
    """Return the changes that set annotations of a child."""
    if not texts:
        return {}
    if not found.metadata.annotations:
        return {("metadata", "annotations"): texts}
    return {("metadata", "annotations", name): text for name, text in texts.items()}


def change(
    plan: Plan,
    document: Callable[[dict[str, Any]], dict[str, Any]],
    template: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    """Change in place what a plan creates, and the templates that it replaces.

    Args:
        plan: The plan.
        document: Returns what is created in place of a child.
        template: Returns the pod template in place of another.
    """

    def write(each: Write) -> Write:
        if each.create is not None:
            return structs.replace(each, create=document(each.create))
        if each.patch is not None and _TEMPLATE in each.patch.values:
            values = dict(each.patch.values)
            values[_TEMPLATE] = template(values[_TEMPLATE])
            return structs.replace(each, patch=structs.replace(each.patch, values=values))
        return each

    plan.stages = [[write(each) for each in stage] for stage in plan.stages]
    plan.coming = {key: [document(each) for each in found] for key, found in plan.coming.items()}
    plan.missing = {name: document(each) for name, each in plan.missing.items()}
