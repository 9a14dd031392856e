"""Server-side apply and the ownership of fields (``metadata.managedFields``).

Semantics: KEP-555, sigs.k8s.io/structured-merge-diff ``merge/update.go`` and
``k8s.io/apimachinery/pkg/util/managedfields``. Two simplifications: a kind has one schema for all
its versions, and a list or map does not change between atomic and granular.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values.causes import MAX_CAUSES, Cause
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.documents import same

from . import lastapplied, managers
from .fieldorder import in_order
from .fieldsets import FieldSet, difference, exclude, intersection, paths, union
from .managers import APPLY, UPDATE, Entry
from .merge import merge, remove
from .typedvalues import type_faults
from .valuefields import UnidentifiableError, compare, field_set, with_named_fields

if TYPE_CHECKING:
    from traincrew.local.apiserver.schema import ObjectSchema
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["ApplyConflictError", "ApplyError", "apply", "track_update"]

BEFORE_FIRST_APPLY = "before-first-apply"
# Fields the server writes or that identify the object; no manager owns them.
_UNOWNED: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        "f:clusterName": {},
        "f:creationTimestamp": {},
        "f:generation": {},
        "f:managedFields": {},
        "f:name": {},
        "f:namespace": {},
        "f:resourceVersion": {},
        "f:selfLink": {},
        "f:uid": {},
    },
}


class ApplyError(ValueError):
    """An applied configuration that cannot be merged.

    Attributes:
        code: HTTP status, as upstream's: 400 for fields a configuration must not have, 500 for
            fields the schema does not know.
    """

    def __init__(self, message: str, code: int = 500) -> None:
        super().__init__(message)
        self.code = code


class ApplyConflictError(Exception):
    """Other managers own fields the configuration wants to change (HTTP 409).

    Attributes:
        causes: one per manager and field, reason ``FieldManagerConflict``.
        message: the text of the response.
    """

    def __init__(self, conflicts: list[tuple[Entry, FieldSet]]) -> None:
        self.causes: list[Cause] = []
        lines = []
        count = 0
        for item, fields in sorted(conflicts, key=_sorting):
            name = _describe(item)
            lines.append(f"conflicts with {name}:")
            found = paths(fields)
            count += len(found)
            for path in found[: MAX_CAUSES - len(self.causes)]:
                self.causes.append(Cause("FieldManagerConflict", f"conflict with {name}", path))
                lines.append(f"- {path}")
        if count > len(self.causes):
            lines.append(f"and {count - len(self.causes)} more")
        if len(self.causes) == 1:
            cause = self.causes[0]
            self.message = f"Apply failed with 1 conflict: {cause.message}: {cause.field}"
        else:
            self.message = f"Apply failed with {count} conflicts: " + "\n".join(lines)
        super().__init__(self.message)


def _sorting(conflict: tuple[Entry, FieldSet]) -> bytes:
    return managers.printed(managers.identity(conflict[0]))


def _describe(item: Entry) -> str:
    text = f'"{item.get("manager", "")}"'
    if item.get("subresource"):
        text += f' with subresource "{item["subresource"]}"'
    if item["operation"] == UPDATE:
        text += f" using {item.get('apiVersion', '')}"
    return text


def _without_managed_fields(document: Document) -> Document:
    metadata = document.get("metadata")
    if type(metadata) is not dict or "managedFields" not in metadata:
        return document
    kept = {key: item for key, item in metadata.items() if key != "managedFields"}
    return {**document, "metadata": kept}


def _empty(schema: ObjectSchema, document: Document) -> Document:
    """Return an object before anything is written into it."""
    head: Document = {key: document[key] for key in ("apiVersion", "kind") if key in document}
    return head | schema.empty


def _entries(old: Document | None, new: Document, subresource: str) -> list[Entry]:
    """Return the entries to start from: those the client sent if well-formed, else the stored."""
    stored = managers.readable(old["metadata"].get("managedFields")) if old is not None else None
    if not subresource:
        sent = new["metadata"].get("managedFields")
        if sent in ([], [{}]):
            return []  # the documented way to reset all managed fields
        items = managers.readable(sent)
        if items is not None:
            return items
    return stored or []


def track_update(
    old: Document | None,
    new: Document,
    *,
    manager: str,
    schema: ObjectSchema,
    subresource: str = "",
    now: str,
    api_version: str,
) -> Document:
    """Record the field manager of the fields that a create, replace or patch wrote.

    An object without managed fields stays untracked.

    Args:
        old: the stored object, None for a create. Not changed.
        new: the object about to be stored; its ``metadata.managedFields`` is set.
        manager: field manager of the request.
        schema: of the kind.
        subresource: such as ``status``; empty for the object itself.
        now: the time, as in ``metav1.Time``.
        api_version: of the request.

    Returns:
        ``new``.
    """
    metadata = new["metadata"]
    items = _entries(old, new, subresource)
    if old is not None and not items:
        metadata.pop("managedFields", None)
        return new
    before = _empty(schema, new) if old is None else _without_managed_fields(old)
    try:
        items = _updated(
            items,
            before,
            _without_managed_fields(new),
            me=managers.Identity(manager, UPDATE, subresource, api_version),
            schema=schema,
            now=now,
        )
    except UnidentifiableError:
        items = []  # as upstream: the object is no longer tracked
    if items:
        metadata["managedFields"] = managers.sort(managers.cap(items))
    else:
        metadata.pop("managedFields", None)
    return new


def _updated(
    items: list[Entry],
    before: Document,
    after: Document,
    *,
    me: managers.Identity,
    schema: ObjectSchema,
    now: str,
) -> list[Entry]:
    """Return the entries after a write other than apply."""
    change = compare(schema.node, before, after)
    reset = schema.reset_fields(me.subresource)
    changed, removed = exclude(change.changed, reset), exclude(change.removed, reset)
    if not changed and not removed:
        return items
    owned = difference(changed, _UNOWNED)
    kept: list[Entry] = []
    mine: FieldSet = {}
    for item in items:
        rest = managers.without(item, changed, removed)
        if owned and managers.identity(item) == me:
            mine = rest["fieldsV1"] if rest is not None else {}
        elif rest is not None:
            kept.append(rest)
    if owned:
        fields = in_order(union(mine, owned)) if mine else owned
        kept.append(managers.entry(me, fields, api_version=me.version, time=now))
    return kept


def apply(
    live: Document | None,
    config: Document,
    *,
    manager: str,
    schema: ObjectSchema,
    force: bool = False,
    subresource: str = "",
    now: str,
    api_version: str,
) -> Document:
    """Merge an applied configuration into the live object.

    Args:
        live: the stored object, None when there is none yet. Not changed.
        config: the applied configuration. Not changed.
        manager: field manager of the request.
        schema: of the kind.
        force: take conflicting fields away from their owners.
        subresource: such as ``status``; empty for the object itself.
        now: the time, as in ``metav1.Time``.
        api_version: of the request.

    Returns:
        The new object, managed fields included, neither pruned nor defaulted.

    Raises:
        ApplyError: the configuration cannot be merged.
        ApplyConflictError: other managers own fields it changes, and ``force`` is not set.
    """
    _check_config(config, schema, api_version)
    attempt = partial(
        _apply,
        live,
        config,
        me=managers.Identity(manager, APPLY, subresource, ""),
        schema=schema,
        now=now,
        api_version=api_version,
    )
    try:
        if manager != "kubectl":
            return attempt(force=force)
        try:
            result = attempt(force=force)
        except ApplyConflictError:
            allowed = lastapplied.unchanged_fields(live, schema, api_version)
            if not allowed:
                raise
            result = attempt(force=False, allowed=allowed)
    except UnidentifiableError:
        raise _unreadable(live or {}, schema, api_version) from None
    return lastapplied.renew(result, config)


def _unreadable(live: Document, schema: ObjectSchema, api_version: str) -> ApplyError:
    """Return the error for a stored object with unkeyed list items: nobody can apply to it."""
    metadata = live.get("metadata", {})
    version = api_version if "/" in api_version else f"/{api_version}"
    faults = ", ".join(type_faults(schema.node, live))
    return ApplyError(
        "failed to create manager for existing fields: failed to convert new object "
        f"({metadata.get('namespace', '')}/{metadata.get('name', '')}; {version}, "
        f"Kind={schema.kind}) to smd typed: {faults}"
    )


def _check_config(config: Document, schema: ObjectSchema, api_version: str) -> None:
    given, kind = config.get("apiVersion", ""), config.get("kind", "")
    if given != api_version or kind != schema.kind:
        raise ApplyError(f"invalid object type: {_qualified(given)}, Kind={kind}", 400)
    metadata = config.get("metadata")
    if type(metadata) is dict and metadata.get("managedFields") is not None:
        raise ApplyError("metadata.managedFields must be nil", 400)
    faults = type_faults(schema.node, config)
    if faults:
        named = metadata if type(metadata) is dict else {}
        namespace, name = (
            each if type(each := named.get(key)) is str else "" for key in ("namespace", "name")
        )
        version = api_version if "/" in api_version else f"/{api_version}"
        text = faults[0] if len(faults) == 1 else "\n  ".join(["errors:", *faults])
        raise ApplyError(
            f"failed to create typed patch object ({namespace}/{name}; {version},"
            f" Kind={schema.kind}): {text}"
        )


def _qualified(api_version: str) -> str:
    return api_version or "/"


def _apply(
    live: Document | None,
    config: Document,
    *,
    me: managers.Identity,
    schema: ObjectSchema,
    force: bool,
    now: str,
    api_version: str,
    allowed: FieldSet | None = None,
) -> Document:
    node = schema.node
    reset = schema.reset_fields(me.subresource)
    items: list[Entry] = []
    if live is None:
        before = _empty(schema, config)
    else:
        before = _without_managed_fields(live)
        items = managers.readable(live["metadata"].get("managedFields")) or []
        if not items:
            first = managers.Identity(BEFORE_FIRST_APPLY, UPDATE, me.subresource, api_version)
            empty = _empty(schema, live)
            items = _updated([], empty, before, me=first, schema=schema, now=now)
    claimed = exclude(field_set(node, config), reset)
    mine = next((item for item in items if managers.identity(item) == me), None)
    others = [item for item in items if item is not mine]
    merged = merge(node, before, config)
    if mine is not None:
        owned = union(managers.all_fields(others), claimed)
        merged = _prune(node, merged, mine["fieldsV1"], owned)
    change = compare(node, before, merged)
    changed, removed = exclude(change.changed, reset), exclude(change.removed, reset)
    if not force and (conflicts := _conflicts(others, changed, allowed)):
        raise ApplyConflictError(conflicts)
    kept = [
        rest for item in others if (rest := managers.without(item, changed, removed)) is not None
    ]
    claimed = difference(claimed, _UNOWNED)
    unchanged = same(before, merged)
    if claimed:
        time = (mine.get("time") if mine is not None else None) if unchanged else now
        kept.append(managers.entry(me, in_order(claimed), api_version=api_version, time=time))
    result: Document = clone(before if unchanged else merged)
    if kept:
        result.setdefault("metadata", {})["managedFields"] = managers.sort(kept)
    return result


def _conflicts(
    others: list[Entry], changed: FieldSet, allowed: FieldSet | None
) -> list[tuple[Entry, FieldSet]]:
    """Return the other managers that own fields which the apply changes, with those fields.

    Args:
        others: entries of the other managers.
        changed: fields whose value the apply changes.
        allowed: fields nobody is asked for; None for none.
    """
    conflicts = []
    for item in others:
        fields = intersection(item["fieldsV1"], changed)
        if allowed is not None:
            fields = difference(fields, allowed)
        if fields:
            conflicts.append((item, fields))
    return conflicts


def _prune(node: Any, merged: Document, last: FieldSet, owned: FieldSet) -> Document:
    """Remove fields the manager applied last time, no longer applies, and nobody else owns."""
    if not difference(last, owned):
        return merged
    last = with_named_fields(node, last)
    there = with_named_fields(node, field_set(node, merged))

    def lost(value: Document) -> FieldSet:
        return difference(there, with_named_fields(node, field_set(node, value)))

    pruned = remove(node, merged, last)
    # Restore the fields that some manager owns …
    gone = difference(lost(pruned), with_named_fields(node, owned))
    pruned = remove(node, merged, gone)
    # … and those that were removed with their parent but were never the manager's.
    result: Document = remove(node, merged, intersection(lost(pruned), last))
    return result
