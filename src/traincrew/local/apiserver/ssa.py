"""Server-side apply and the ownership of fields (``metadata.managedFields``).

Semantics: KEP-555, sigs.k8s.io/structured-merge-diff ``merge/update.go`` and
``k8s.io/apimachinery/pkg/util/managedfields``. Two simplifications: a kind has one schema for all
its versions, and a list or map does not change between atomic and granular.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from . import managers
from .causes import Cause
from .codec import clone
from .emptyobjects import empty_object
from .fieldsets import (
    FieldSet,
    compare,
    difference,
    duplicate_items,
    field_set,
    intersection,
    paths,
    union,
    with_named_fields,
)
from .managers import APPLY, UPDATE, Entry
from .merge import merge, remove, restore_emptied

if TYPE_CHECKING:
    from .schema import ObjectSchema

__all__ = ["ApplyConflictError", "ApplyError", "apply", "track_update"]

Document = dict[str, Any]

BEFORE_FIRST_APPLY = "before-first-apply"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Fields the server writes or that identify the object; nobody owns them.
_UNOWNED = frozenset(
    (
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "selfLink",
        "managedFields",
    )
)
_NAME: FieldSet = {"f:metadata": {"f:name": {}}}
_MAX_LAST_APPLIED = 256 * 1024


class ApplyError(ValueError):
    """An applied configuration that cannot be merged; the message says why (HTTP 400)."""


class ApplyConflictError(Exception):
    """Other managers own fields the configuration wants to change (HTTP 409).

    Attributes:
        causes: one per manager and field, reason ``FieldManagerConflict``.
        message: what a person reads.
    """

    def __init__(self, conflicts: list[tuple[Entry, FieldSet]]) -> None:
        self.causes: list[Cause] = []
        by_manager: dict[str, list[str]] = {}
        for item, fields in conflicts:
            name = _describe(item)
            for path in paths(fields):
                self.causes.append(Cause("FieldManagerConflict", f"conflict with {name}", path))
                by_manager.setdefault(name, []).append(path)
        if len(self.causes) == 1:
            cause = self.causes[0]
            self.message = f"Apply failed with 1 conflict: {cause.message}: {cause.field}"
        else:
            lines = [f"Apply failed with {len(self.causes)} conflicts: "]
            for name in sorted(by_manager):
                lines.append(f"conflicts with {name}:")
                lines.extend(f"- {path}" for path in by_manager[name])
            self.message = lines[0] + "\n".join(lines[1:])
        super().__init__(self.message)


def _describe(item: Entry) -> str:
    text = f'"{item.get("manager", "")}"'
    if item.get("subresource"):
        text += f' with subresource "{item["subresource"]}"'
    if item["operation"] == UPDATE:
        text += f" using {item.get('apiVersion', '')}"
    return text


def _owned_part(document: Document, schema: ObjectSchema, subresource: str) -> Document:
    """The parts of a document that can have owners in a write to this (sub)resource.

    The name stays, owned by nobody in the end: it keeps metadata from looking empty.
    """
    body = {key: item for key, item in document.items() if key not in ("apiVersion", "kind")}
    if subresource == "status":
        body.pop("spec", None)
        if schema.custom:
            body.pop("metadata", None)
    elif not subresource and schema.has_status:
        body.pop("status", None)
    metadata = body.get("metadata")
    if type(metadata) is dict:
        body["metadata"] = {key: item for key, item in metadata.items() if key not in _UNOWNED}
    return body


def _empty(schema: ObjectSchema, metadata: Document) -> Document:
    """An object before anything is written into it, but its name."""
    empty: Document = {"metadata": {"name": metadata["name"]} if "name" in metadata else {}}
    return empty if schema.custom else empty | empty_object(schema.group, schema.kind)


def _entries(old: Document | None, new: Document, subresource: str) -> list[Entry]:
    """The entries to go on from: those the writer sent if they are in order, else the stored."""
    stored = managers.readable(old["metadata"].get("managedFields")) if old is not None else None
    if not subresource:
        sent = new["metadata"].get("managedFields")
        if sent == [{}]:
            return []  # the documented way to forget all owners
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
    """Record who owns the fields that a create, replace or patch wrote.

    An object nobody has tracked so far stays so.

    Args:
        old: the stored object, None for a create. Not changed.
        new: what is about to be stored; its ``metadata.managedFields`` is set.
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
    before = _empty(schema, metadata) if old is None else _owned_part(old, schema, subresource)
    change = compare(schema.node, before, _owned_part(new, schema, subresource))
    changed, removed = change.changed, change.removed
    if changed or removed:
        me = (manager, UPDATE, subresource, api_version)
        kept: list[Entry] = []
        mine: FieldSet = {}
        for item in items:
            rest = managers.without(item, changed, removed)
            if changed and managers.identity(item) == me:
                mine = rest["fieldsV1"] if rest is not None else {}
            elif rest is not None:
                kept.append(rest)
        if changed:
            fields = union(mine, changed)
            kept.append(
                managers.entry(
                    manager,
                    UPDATE,
                    fields,
                    api_version=api_version,
                    time=now,
                    subresource=subresource,
                )
            )
        items = managers.sort(managers.cap(kept))
    if items:
        metadata["managedFields"] = items
    else:
        metadata.pop("managedFields", None)
    return new


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
        config: what was sent, pruned. Not changed.
        manager: field manager of the request.
        schema: of the kind.
        force: take conflicting fields away from their owners.
        subresource: such as ``status``; empty for the object itself.
        now: the time, as in ``metav1.Time``.
        api_version: of the request.

    Returns:
        The new object, managed fields included; equal to ``live`` when nothing changes.

    Raises:
        ApplyError: the configuration cannot be merged.
        ApplyConflictError: others own fields it changes, and ``force`` is not given.
    """
    _check_config(config, schema)
    attempt = partial(
        _apply,
        live,
        config,
        manager=manager,
        schema=schema,
        subresource=subresource,
        now=now,
        api_version=api_version,
    )
    if manager != "kubectl" or live is None:
        return attempt(force=force)
    try:
        result = attempt(force=force)
    except ApplyConflictError:
        allowed = _last_applied_fields(live, schema, api_version)
        if not allowed:
            raise
        result = attempt(force=False, allowed=allowed)
    return _sync_last_applied(result, config)


def _check_config(config: Document, schema: ObjectSchema) -> None:
    metadata = config.get("metadata")
    if type(metadata) is dict and metadata.get("managedFields"):
        raise ApplyError("metadata.managedFields must be nil")
    fault = duplicate_items(schema.node, config)
    if fault is not None:
        name = (metadata or {}).get("name", "")
        raise ApplyError(
            f"failed to create typed patch object ({name}; {config.get('apiVersion', '')}, "
            f"Kind={schema.kind}): {fault}"
        )


def _apply(
    live: Document | None,
    config: Document,
    *,
    manager: str,
    schema: ObjectSchema,
    force: bool,
    subresource: str,
    now: str,
    api_version: str,
    allowed: FieldSet | None = None,
) -> Document:
    node = schema.node
    items: list[Entry] = []
    before: Document = {}
    if live is not None:
        before = _owned_part(live, schema, subresource)
        items = managers.readable(live["metadata"].get("managedFields")) or []
        if not items:
            owned = compare(node, _empty(schema, live["metadata"]), before).changed
            if owned:
                items = [
                    managers.entry(
                        BEFORE_FIRST_APPLY,
                        UPDATE,
                        owned,
                        api_version=api_version,
                        time=now,
                        subresource=subresource,
                    )
                ]
    wanted = _owned_part(config, schema, subresource)
    everything = field_set(node, wanted)
    claimed = difference(everything, _NAME)
    me = (manager, APPLY, subresource, "")
    mine = next((item for item in items if managers.identity(item) == me), None)
    others = [item for item in items if item is not mine]
    merged = merge(node, before, wanted) if live is not None else wanted
    if mine is not None:
        owned = union(managers.all_fields(others), everything)
        merged = _prune(node, merged, mine["fieldsV1"], owned)
    change = compare(node, before, merged)
    if not force:
        conflicts = []
        for item in others:
            fields = intersection(item["fieldsV1"], change.changed)
            if allowed is not None:
                fields = difference(fields, allowed)
            if fields:
                conflicts.append((item, fields))
        if conflicts:
            raise ApplyConflictError(conflicts)
    kept = [
        rest
        for item in others
        if (rest := managers.without(item, change.changed, change.removed)) is not None
    ]
    if claimed:
        same = (
            mine is not None
            and mine["fieldsV1"] == claimed
            and not (change.changed or change.removed)
        )
        time = mine.get("time") if mine is not None and same else now
        kept.append(
            managers.entry(
                manager,
                APPLY,
                claimed,
                api_version=api_version,
                time=time,
                subresource=subresource,
            )
        )
    result = _assemble(live, config, merged, schema, subresource)
    if kept:
        result["metadata"]["managedFields"] = managers.sort(managers.cap(kept))
    return result


def _prune(node: Any, merged: Document, last: FieldSet, owned: FieldSet) -> Document:
    """Take out what the manager applied last time, applies no more, and nobody else owns."""
    if not difference(last, owned):
        return merged
    last = with_named_fields(node, last)
    there = with_named_fields(node, field_set(node, merged))

    def lost(value: Document) -> FieldSet:
        return difference(there, with_named_fields(node, field_set(node, value)))

    pruned = remove(node, merged, last)
    # What somebody owns comes back …
    gone = difference(lost(pruned), with_named_fields(node, owned))
    pruned = remove(node, merged, gone)
    # … and so does what went along with a parent but was never the manager's.
    pruned = remove(node, merged, intersection(lost(pruned), last))
    result: Document = restore_emptied(node, merged, pruned)
    return result


def _assemble(
    live: Document | None,
    config: Document,
    merged: Document,
    schema: ObjectSchema,
    subresource: str,
) -> Document:
    """A whole document again: what nobody owns comes from the live object."""
    source = live if live is not None else config
    result = {"apiVersion": config.get("apiVersion"), "kind": config.get("kind")}
    metadata = {
        key: item
        for key, item in source["metadata"].items()
        if key in _UNOWNED and key != "managedFields"
    }
    if live is not None and config["metadata"].get("resourceVersion"):
        metadata["resourceVersion"] = config["metadata"]["resourceVersion"]
    result["metadata"] = metadata
    merged = dict(merged)
    if "metadata" in merged or not (subresource == "status" and schema.custom):
        metadata |= merged.pop("metadata", {})
    else:
        metadata |= source["metadata"]
        metadata.pop("managedFields", None)
    if live is not None:
        owned = _owned_part(live, schema, subresource)
        result |= {
            key: item
            for key, item in live.items()
            if key not in owned and key not in ("apiVersion", "kind", "metadata")
        }
    result |= merged
    copy: Document = clone(result)
    return copy


def _last_applied_fields(live: Document, schema: ObjectSchema, api_version: str) -> FieldSet:
    """Fields whose present value is the one client-side apply put there.

    ``kubectl apply --server-side`` may take these over from ``kubectl apply`` without a conflict.
    """
    text = live["metadata"].get("annotations", {}).get(LAST_APPLIED)
    try:
        last = msgspec.json.decode(text or "null")
    except msgspec.DecodeError:
        return {}
    if type(last) is not dict or last.get("apiVersion") != api_version:
        return {}
    schema.prune(last)
    change = compare(schema.node, last, live)
    return difference(difference(field_set(schema.node, last), change.changed), change.removed)


def _sync_last_applied(result: Document, config: Document) -> Document:
    """Keep the annotation of client-side apply current, where there is one."""
    annotations = result["metadata"].get("annotations", {})
    if LAST_APPLIED in annotations:
        bare = clone(config)
        (bare["metadata"].get("annotations") or {}).pop(LAST_APPLIED, None)
        text = msgspec.json.encode(bare).decode() + "\n"
        if len(text) <= _MAX_LAST_APPLIED:
            annotations[LAST_APPLIED] = text
    return result
