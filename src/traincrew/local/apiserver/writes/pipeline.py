"""The steps between decoding and storage: default, validate, track.

`Creation.insert` and `Writer.update` call them in order, after those of `decoding`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.apply import apply as ssa
from traincrew.local.apiserver.kinds.custom import validate as validate_custom
from traincrew.local.apiserver.kinds.validation import validate
from traincrew.local.apiserver.requests.objectmeta import timestamp
from traincrew.local.apiserver.schema.prune import fill_required, restore, zero
from traincrew.local.apiserver.values import causes
from traincrew.local.apiserver.values.codec import clone, encode_sorted
from traincrew.local.apiserver.values.errors import invalid

from .decoding import check_types, significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import WriteOptions
    from traincrew.local.apiserver.schema.node import SchemaNode
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document
    from traincrew.local.apiserver.values.paths import Path

__all__ = ["check", "default", "drop_repeated_owners", "track"]


def default(
    resource: ResourceType, document: Document, options: WriteOptions, *, valid: bool = False
) -> bool:
    """Check types and set defaults, in place.

    Afterwards a built-in document is known to have the structure of its kind.

    Args:
        resource: resource of the document.
        document: changed in place.
        options: options of the write.
        valid: result of `decoding.report_unknown` or `decoding.after_apply`, if only metadata and
            status have changed since.

    Returns:
        Whether the document is known to have all required fields.

    Raises:
        StatusError: 400 or 422 for values of a wrong type in built-in kinds, as from upstream's
            decoder.
    """
    complete = False
    if resource.custom is None:
        node = resource.schema.node
        if "spec" in node.fields and "spec" not in document:
            document["spec"] = {}
            valid = False
        faults = [] if valid else significant(check_types(resource, document, options))
        if faults:
            _fill_required_lists(node, document)
        complete = not faults
        if kept := resource.strategy.kept_empty:
            restore(document, [each for each in options.dropped if each[0][1] == kept])
    if resource.strategy.default is not None:
        resource.strategy.default(document)
    resource.schema.default(document)
    resource.schema.complete(document)
    return complete


def drop_repeated_owners(document: Document, options: WriteOptions, *, changed: bool) -> None:
    """Drop duplicate owner references, in place, and add a warning.

    Args:
        document: changed in place.
        options: options of the write; its warnings are extended.
        changed: whether the client sent a patch instead of the whole object.
    """
    metadata = document.get("metadata")
    if type(metadata) is not dict:
        return
    owners = metadata.get("ownerReferences")
    if type(owners) is list and len(owners) > 1:
        options.warnings.extend(_repeated_owners(document, changed=changed))
        first: dict[bytes, Any] = {}
        for owner in owners:
            first.setdefault(encode_sorted(owner), owner)
        metadata["ownerReferences"] = list(first.values())


def _repeated_owners(document: Document, *, changed: bool) -> list[str]:
    """Return a warning if an owner is referenced twice.

    Args:
        document: the object.
        changed: whether the client sent a patch, not the whole object.
    """
    owners = document["metadata"].get("ownerReferences")
    if not owners or len(owners) < 2:
        return []
    seen: set[bytes] = set()
    uids = []
    for owner in owners:
        encoded = encode_sorted(owner)
        if encoded in seen:
            uids.append(owner.get("uid", ""))
        seen.add(encoded)
    if not uids:
        return []
    when = " after mutating admission happens" if changed else ""
    text = (
        f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner "
        "references in 1.20+, and may reject such requests as early as 1.24; please fix your "
        f"requests; duplicate UID(s) observed: {', '.join(uids)}"
    )
    return [text]


def _fill_required_lists(node: SchemaNode, value: Document) -> None:
    """Add the lists that a built-in schema requires; Go clients send them as null when empty.

    Whether an empty list is valid is left to the rules of the kind.
    """
    for name in node.required:
        if name not in value and node.fields[name].type == "array":
            value[name] = []
    for name, item in value.items():
        child = node.fields.get(name) or node.values
        if child is None:
            continue
        if type(item) is dict:
            _fill_required_lists(child, item)
        elif type(item) is list and child.items is not None and child.items.type == "object":
            for each in item:
                _fill_required_lists(child.items, each)


def _violations(
    resource: ResourceType, document: Document, old: Document | None, missing: list[Cause]
) -> list[Cause]:
    """Validate an object of a built-in kind, even if required fields are missing.

    Upstream's rules see Go's zero values there, and report them like an empty string. A missing
    field that no rule reports is reported by the schema.
    """
    if not missing:
        return validate(resource.strategy, document, old)
    if any(cause.reason != "FieldValueRequired" for cause in missing):
        return missing
    whole = clone(document)
    for name, child in resource.schema.node.fields.items():
        if name not in {"metadata", "status"}:
            if name in resource.schema.node.required and name not in whole:
                whole[name] = zero(child)
            fill_required(child, whole.get(name))
    found = validate(resource.strategy, whole, old)
    named = {cause.field for cause in found}
    return [*found, *(cause for cause in missing if cause.field not in named)]


def _as_sent(found: list[Cause], shown: list[Cause]) -> list[Cause]:
    """Return the same causes with the values as they were sent, including empty lists."""
    texts: dict[tuple[str, str], list[Cause]] = {}
    for cause in shown:
        texts.setdefault((cause.field, cause.reason), []).append(cause)
    result = []
    for cause in found:
        same = texts.get((cause.field, cause.reason), [])
        result.append(same[0] if len(same) == 1 else cause)
    return result


def check(
    resource: ResourceType,
    document: Document,
    old: Document | None,
    dropped: Sequence[tuple[Path, Any]],
    *,
    complete: bool,
) -> None:
    """Reject a document that violates a rule of its kind or its schema.

    Args:
        resource: resource of the document.
        document: pruned and defaulted.
        old: the stored document, for an update.
        dropped: the empty lists and maps that `decoding` removed; messages show them.
        complete: result of `default`.

    Raises:
        StatusError: 422 with a cause for every violation.
    """
    try:
        found = _broken_rules(resource, document, old, dropped, complete=complete)
    except causes.EnoughCausesError as error:
        found = error.found
    if found:
        name = document["metadata"].get("name", "")
        raise invalid(resource.group, resource.kind, name, found)


def _broken_rules(
    resource: ResourceType,
    document: Document,
    old: Document | None,
    dropped: Sequence[tuple[Path, Any]],
    *,
    complete: bool,
) -> list[Cause]:
    """Return a cause for every violation; for the arguments see `check`.

    Raises:
        EnoughCausesError: there are too many.
    """
    found: list[Cause] = []
    if not complete:
        if resource.custom is None:
            found += resource.schema.validate(document)
        else:
            found += validate_custom(resource.schema, document, old)
    if resource.custom is None:
        found = _violations(resource, document, old, significant(found))
        if found and dropped:
            whole = clone(document)
            restore(whole, dropped)
            found = _as_sent(found, _violations(resource, whole, old, []))
    return found


def track(
    resource: ResourceType,
    document: Document,
    old: Document | None,
    options: WriteOptions,
    *,
    subresource: str | None,
    now: float,
) -> Document:
    """Update ``metadata.managedFields`` for this write."""
    if resource.custom is not None and type(document.get("status", {})) is not dict:
        document["metadata"].pop("managedFields", None)  # upstream drops them, too
        return document
    return ssa.track_update(
        old,
        document,
        manager=options.manager,
        schema=resource.schema,
        subresource=subresource or "",
        now=timestamp(now),
        api_version=resource.api_version,
    )
