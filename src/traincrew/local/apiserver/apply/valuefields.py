"""Field sets of values, and of the differences between two values.

Semantics: sigs.k8s.io/structured-merge-diff (``typed``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from traincrew.local.apiserver.schema.node import ANY, SchemaNode

from .fieldorder import sort_steps
from .fieldsets import LEAF, FieldSet

_dump = msgspec.json.Encoder(order="sorted").encode


class UnidentifiableError(Exception):
    """An item of an associative list has none of its key fields, so nobody can own it."""


def item_key(node: SchemaNode, item: Any) -> str | None:
    """Return the step to an item of an associative list; None when the item has no key."""
    if node.is_set:
        return "v:" + _dump(item).decode()
    if type(item) is not dict:
        return None
    keys, defaults = node.keys, node.key_defaults
    if len(keys) == 1:
        key = keys[0]
        value = item.get(key)
        if type(value) is str and len(value) < _SHORT:
            return _text_step(key, value)
        if value is None and key not in item and key not in defaults:
            return None
        return f'k:{{"{key}":{_dump(item.get(key, defaults.get(key))).decode()}}}'
    identity = {
        key: item.get(key, defaults.get(key)) for key in keys if key in item or key in defaults
    }
    return "k:" + _dump(identity).decode() if identity else None


_SHORT = 100


# Names of containers, volumes and variables are those of many objects.
@lru_cache(maxsize=4096)
def _text_step(key: str, value: str) -> str:
    return f'k:{{"{key}":{_dump(value).decode()}}}'


def index_items(node: SchemaNode, items: list[Any] | None) -> dict[str, Any]:
    """Index the items of an associative list by step; of duplicates the first is kept."""
    found: dict[str, Any] = {}
    for item in items or ():
        step = item_key(node, item)
        if step is not None:
            found.setdefault(step, item)
    return found


# --- the fields of one value --------------------------------------------------------------------


def field_set(node: SchemaNode, value: Any) -> FieldSet:
    """Return the fields an applied configuration claims."""
    kind = type(value)
    if kind is dict:
        if node.leaf or not value:
            return LEAF
        fields, rest = node.fields, node.values
        result = {}
        for key, item in value.items():
            child = fields.get(key)
            named = child is not None
            if child is None:
                child = rest or ANY
            kind = type(item)
            if kind is dict:
                below = field_set(child, item)
                if not named:
                    below = {".": LEAF, **below} if below else LEAF
                elif not below and item and not child.leaf:
                    continue  # nothing below it can be owned
            elif kind is list and child.associative:
                below = _list_fields(child, item)
                if not named:
                    below = {".": LEAF, **below} if below else LEAF
                elif not below:
                    continue  # an empty associative list is not owned
            else:
                below = LEAF
            result["f:" + key] = below
        return result
    return LEAF


def _list_fields(node: SchemaNode, items: list[Any]) -> FieldSet:
    result: FieldSet = {}
    item_node = node.items or ANY
    for item in items:
        step = item_key(node, item)
        if step is None:
            continue
        if step in result:
            result[step] = LEAF  # of repeated items only the step is owned
            continue
        below = field_set(item_node, item) if type(item) is dict else LEAF
        result[step] = {".": LEAF, **below} if below else LEAF
    return result


# --- the difference of two values ---------------------------------------------------------------


class Comparison:
    """The fields a write changed.

    Attributes:
        changed: fields that are new or have another value, in order.
        removed: fields that are gone.
    """

    __slots__ = ("changed", "removed")

    def __init__(self) -> None:
        self.changed: FieldSet = {}
        self.removed: FieldSet = {}


def compare(node: SchemaNode, old: Any, new: Any) -> Comparison:
    """Compare two whole documents."""
    result = Comparison()
    changed, removed = _compare_maps(node, old, new)
    result.changed = changed or {}
    result.removed = removed or {}
    return result


# The comparison of a child returns (changed, removed): None for nothing, or the dictionary to put
# below the child's step.
_Pair = tuple[FieldSet | None, FieldSet | None]
_NOTHING: _Pair = (None, None)


def everything(node: SchemaNode, value: Any) -> FieldSet:
    """Return the fields added (or removed) with a whole value: all below it and itself, in order.

    Most of them become a new entry of ``managedFields``, for which they are in order already:
    sorting while they are collected costs half as much as sorting the result.
    """
    kind = type(value)
    if kind is dict:
        if not value or node.leaf:
            return LEAF
        fields, rest = node.fields, node.values or ANY
        if value.keys() <= fields.keys() and _SCALARS.issuperset(map(type, value.values())):
            return _named_scalars(tuple(value))
        result: FieldSet = {".": LEAF}
        for key in sorted(value):
            item = value[key]
            kind = type(item)
            if kind is dict or kind is list:
                result["f:" + key] = everything(fields.get(key, rest), item)
            else:
                result["f:" + key] = LEAF
        return result
    if kind is list and value and node.associative:
        result = {".": LEAF}
        item_node = node.items or ANY
        for item in value:
            step = item_key(node, item)
            if step is None:
                raise UnidentifiableError
            result[step] = LEAF if step in result else everything(item_node, item)
        return sort_steps(result)
    return LEAF


_SCALARS = frozenset({str, int, float, bool, type(None)})


# The names are those of a schema, so there are few combinations; all sets of one are the same.
@lru_cache(maxsize=4096)
def _named_scalars(names: tuple[str, ...]) -> FieldSet:
    """Return the set of an object whose fields have no parts."""
    return {".": LEAF, **{"f:" + name: LEAF for name in sorted(names)}}


def _compare(node: SchemaNode, old: Any, new: Any) -> _Pair:
    """Compare two values that both exist."""
    old_kind, new_kind = type(old), type(new)
    if not node.leaf:
        if _is_map(old_kind, old, new) and _is_map(new_kind, new, old):
            if old or new:
                return _compare_maps(node, old or {}, new or {})
        elif _is_list(old_kind, old, new) and _is_list(new_kind, new, old):
            if (old or new) and node.associative:
                return _compare_lists(node, old or [], new or [])
        # Another type, where the schema allows any: the value itself has changed, and what was
        # or is below a map is removed or added with it.
        elif new_kind is dict and new:
            return everything(node, new), None
        elif old_kind is dict and old:
            gone = everything(node, old)
            return LEAF, {step: below for step, below in gone.items() if step != "."}
    return (LEAF, None) if _differ(old, new) or not _same_types(node, old, new) else _NOTHING


def _is_map(kind: type, value: Any, other: Any) -> bool:
    return kind is dict or (value is None and type(other) is dict)


def _is_list(kind: type, value: Any, other: Any) -> bool:
    return kind is list or (value is None and type(other) is list)


def _differ(old: Any, new: Any) -> bool:
    return old != new or (type(old) is bool) != (type(new) is bool)


def _same_types(node: SchemaNode, old: Any, new: Any) -> bool:
    """Return whether equal values have equal types; where any is allowed, 1 == True in Python."""
    return not node.open or _dump(old) == _dump(new)


def _compare_maps(node: SchemaNode, old: dict[str, Any], new: dict[str, Any]) -> _Pair:
    changed: FieldSet = {}
    removed: FieldSet = {}
    fields, rest = node.fields, node.values or ANY
    for key, item in new.items():
        if key in old:
            before = old[key]
            if before is item:
                continue
            kind = type(item)
            if kind is dict or kind is list or type(before) is dict or type(before) is list:
                child = fields.get(key, rest)
                if before == item and _same_types(child, before, item):
                    continue
                more, less = _compare(child, before, item)
                if more is not None:
                    changed["f:" + key] = more
                if less is not None:
                    removed["f:" + key] = less
            elif _differ(before, item):
                changed["f:" + key] = LEAF
        else:
            kind = type(item)
            if kind is dict or kind is list:
                changed["f:" + key] = everything(fields.get(key, rest), item)
            else:
                changed["f:" + key] = LEAF
    for key, item in old.items():
        if key not in new:
            kind = type(item)
            if kind is dict or kind is list:
                removed["f:" + key] = everything(fields.get(key, rest), item)
            else:
                removed["f:" + key] = LEAF
    return sort_steps(changed) or None, removed or None


def _compare_lists(node: SchemaNode, old: list[Any], new: list[Any]) -> _Pair:
    changed: FieldSet = {}
    removed: FieldSet = {}
    before, after = index_items(node, old), index_items(node, new)
    if len(before) < len(old) or len(after) < len(new):
        return _compare_repeated(node, old, new)
    item_node = node.items or ANY
    for step, item in after.items():
        if step not in before:
            changed[step] = everything(item_node, item)
        elif before[step] != item or not _same_types(item_node, before[step], item):
            more, less = _compare(item_node, before[step], item)
            if more is not None:
                changed[step] = more
            if less is not None:
                removed[step] = less
    for step, item in before.items():
        if step not in after:
            removed[step] = everything(item_node, item)
    return sort_steps(changed) or None, removed or None


def _groups(node: SchemaNode, items: list[Any]) -> dict[str, list[Any]]:
    result: dict[str, list[Any]] = {}
    for item in items:
        step = item_key(node, item)
        if step is None:
            raise UnidentifiableError
        result.setdefault(step, []).append(item)
    return result


def _compare_repeated(node: SchemaNode, old: list[Any], new: list[Any]) -> _Pair:
    """Compare lists in which keys repeat: all items of one key count as one value."""
    changed: FieldSet = {}
    removed: FieldSet = {}
    before, after = _groups(node, old), _groups(node, new)
    item_node = node.items or ANY
    for step in {**before, **after}:
        left, right = before.get(step, []), after.get(step, [])
        if len(left) < 2 and len(right) < 2:
            more, less = _compare_lists(node, left, right)
            changed |= more or {}
            removed |= less or {}
        elif len(left) > 1 and len(right) > 1:
            if left != right:
                changed[step] = LEAF
        elif len(left) > 1:
            removed[step] = LEAF
            if right:
                changed[step] = everything(item_node, right[0])
        else:
            changed[step] = LEAF
            if left:
                removed[step] = everything(item_node, left[0])
    return sort_steps(changed) or None, removed or None


def with_named_fields(node: SchemaNode, fields: FieldSet) -> FieldSet:
    """Return the set with every struct field on the way to a member added as a member.

    A set built from a value contains what is below a struct field, not the field itself. It has
    to be a member to find out which fields a pruned value lost.
    """
    result: FieldSet = {}
    for step, below in fields.items():
        if step == ".":
            result[step] = below
            continue
        if step.startswith("f:"):
            child = node.fields.get(step[2:])
            named = child is not None
            child = child or node.values or ANY
        else:
            child, named = node.items or ANY, False
        inner = with_named_fields(child, below) if below else below
        if named and inner and "." not in inner:
            inner = {".": LEAF, **inner}
        result[step] = inner
    return result
