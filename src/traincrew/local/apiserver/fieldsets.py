"""Sets of fields, in the form they have in ``managedFields[].fieldsV1``, and how to get them.

A set is a nested dictionary. A key is a step: ``f:name`` a field, ``k:{...}`` an item of a list of
maps by its key fields, ``v:...`` an item of a set. ``{}`` below a step means the step itself is a
member; when it has members below it too, the dictionary has the key ``.``. Working on this form
directly saves decoding and encoding it on every write, which is most writes' largest cost.

Sets are never changed in place: what an operation does not touch is shared.

Semantics: sigs.k8s.io/structured-merge-diff (``fieldpath``, ``typed``).
"""

from __future__ import annotations

from typing import Any

import msgspec

from .nodes import ANY, Node

__all__ = [
    "Comparison",
    "FieldSet",
    "UnidentifiableError",
    "compare",
    "difference",
    "everything",
    "exclude",
    "field_set",
    "index_items",
    "intersection",
    "item_key",
    "paths",
    "print_step",
    "union",
    "with_named_fields",
]

FieldSet = dict[str, Any]

_dump = msgspec.json.Encoder(order="sorted").encode
_LEAF: FieldSet = {}


class UnidentifiableError(Exception):
    """An item of an associative list has none of its key fields: nobody can own it."""


def item_key(node: Node, item: Any) -> str | None:
    """The step to an item of an associative list; None when the item has no key."""
    if node.is_set:
        return "v:" + _dump(item).decode()
    if type(item) is not dict:
        return None
    keys, defaults = node.keys, node.key_defaults
    if len(keys) == 1:
        key = keys[0]
        if key not in item and key not in defaults:
            return None
        return f'k:{{"{key}":{_dump(item.get(key, defaults.get(key))).decode()}}}'
    identity = {
        key: item.get(key, defaults.get(key)) for key in keys if key in item or key in defaults
    }
    return "k:" + _dump(identity).decode() if identity else None


def index_items(node: Node, items: list[Any] | None) -> dict[str, Any]:
    """Items of an associative list by their step; of duplicates the first counts."""
    found: dict[str, Any] = {}
    for item in items or ():
        step = item_key(node, item)
        if step is not None:
            found.setdefault(step, item)
    return found


# --- the fields of one value --------------------------------------------------------------------


def field_set(node: Node, value: Any) -> FieldSet:
    """The fields an applied configuration claims."""
    kind = type(value)
    if kind is dict:
        if node.leaf or not value:
            return _LEAF
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
                    below = {".": _LEAF, **below} if below else _LEAF
                elif not below and item and not child.leaf:
                    continue  # nothing below it can be owned
            elif kind is list and child.associative:
                below = _list_fields(child, item)
                if not named:
                    below = {".": _LEAF, **below} if below else _LEAF
                elif not below:
                    continue  # an empty list of individuals is owned by nobody
            else:
                below = _LEAF
            result["f:" + key] = below
        return result
    return _LEAF


def _list_fields(node: Node, items: list[Any]) -> FieldSet:
    result: FieldSet = {}
    item_node = node.items or ANY
    for item in items:
        step = item_key(node, item)
        if step is None:
            continue
        if step in result:
            result[step] = _LEAF  # of repeated items nobody owns more than the step
            continue
        below = field_set(item_node, item) if type(item) is dict else _LEAF
        result[step] = {".": _LEAF, **below} if below else _LEAF
    return result


# --- the difference of two values ---------------------------------------------------------------


class Comparison:
    """What a write did.

    Attributes:
        changed: fields that are new or have another value.
        removed: fields that are gone.
    """

    __slots__ = ("changed", "removed")

    def __init__(self) -> None:
        self.changed: FieldSet = {}
        self.removed: FieldSet = {}


def compare(node: Node, old: Any, new: Any) -> Comparison:
    """Compare two whole documents."""
    result = Comparison()
    changed, removed = _compare_maps(node, old, new)
    result.changed = changed or {}
    result.removed = removed or {}
    return result


# The comparison of a child yields (changed, removed); None means nothing, a dictionary is what to
# put below the child's step.
_Pair = tuple[FieldSet | None, FieldSet | None]
_NOTHING: _Pair = (None, None)


def everything(node: Node, value: Any) -> FieldSet:
    """What is added (or removed) when a value appears (or disappears): all of it and itself."""
    kind = type(value)
    if kind is dict:
        if not value or node.leaf:
            return _LEAF
        fields, rest = node.fields, node.values or ANY
        result: FieldSet = {".": _LEAF}
        for key, item in value.items():
            kind = type(item)
            if kind is dict or kind is list:
                result["f:" + key] = everything(fields.get(key, rest), item)
            else:
                result["f:" + key] = _LEAF
        return result
    if kind is list and value and node.associative:
        result = {".": _LEAF}
        item_node = node.items or ANY
        for item in value:
            step = item_key(node, item)
            if step is None:
                raise UnidentifiableError
            result[step] = _LEAF if step in result else everything(item_node, item)
        return result
    return _LEAF


def _compare(node: Node, old: Any, new: Any) -> _Pair:
    """Compare two values that are both there."""
    old_kind, new_kind = type(old), type(new)
    if not node.leaf:
        if _is_map(old_kind, old, new) and _is_map(new_kind, new, old):
            if old or new:
                return _compare_maps(node, old or {}, new or {})
        elif _is_list(old_kind, old, new) and _is_list(new_kind, new, old):
            if (old or new) and node.associative:
                return _compare_lists(node, old or [], new or [])
        # Another shape, where the schema allows any: the place itself has changed, and what was
        # or is below a map came or went with it.
        elif new_kind is dict and new:
            return everything(node, new), None
        elif old_kind is dict and old:
            gone = everything(node, old)
            return _LEAF, {step: below for step, below in gone.items() if step != "."}
    return (_LEAF, None) if _differ(old, new) or not _alike(node, old, new) else _NOTHING


def _is_map(kind: type, value: Any, other: Any) -> bool:
    return kind is dict or (value is None and type(other) is dict)


def _is_list(kind: type, value: Any, other: Any) -> bool:
    return kind is list or (value is None and type(other) is list)


def _differ(old: Any, new: Any) -> bool:
    return old != new or (type(old) is bool) != (type(new) is bool)


def _alike(node: Node, old: Any, new: Any) -> bool:
    """Whether equal values are the same: where any type goes, 1 equals True in Python."""
    return not node.open or _dump(old) == _dump(new)


def _compare_maps(node: Node, old: dict[str, Any], new: dict[str, Any]) -> _Pair:
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
                if before == item and _alike(child, before, item):
                    continue
                more, less = _compare(child, before, item)
                if more is not None:
                    changed["f:" + key] = more
                if less is not None:
                    removed["f:" + key] = less
            elif _differ(before, item):
                changed["f:" + key] = _LEAF
        else:
            kind = type(item)
            if kind is dict or kind is list:
                changed["f:" + key] = everything(fields.get(key, rest), item)
            else:
                changed["f:" + key] = _LEAF
    for key, item in old.items():
        if key not in new:
            kind = type(item)
            if kind is dict or kind is list:
                removed["f:" + key] = everything(fields.get(key, rest), item)
            else:
                removed["f:" + key] = _LEAF
    return changed or None, removed or None


def _compare_lists(node: Node, old: list[Any], new: list[Any]) -> _Pair:
    changed: FieldSet = {}
    removed: FieldSet = {}
    before, after = index_items(node, old), index_items(node, new)
    if len(before) < len(old) or len(after) < len(new):
        return _compare_repeated(node, old, new)
    item_node = node.items or ANY
    for step, item in after.items():
        if step not in before:
            changed[step] = everything(item_node, item)
        elif before[step] != item or not _alike(item_node, before[step], item):
            more, less = _compare(item_node, before[step], item)
            if more is not None:
                changed[step] = more
            if less is not None:
                removed[step] = less
    for step, item in before.items():
        if step not in after:
            removed[step] = everything(item_node, item)
    return changed or None, removed or None


def _groups(node: Node, items: list[Any]) -> dict[str, list[Any]]:
    result: dict[str, list[Any]] = {}
    for item in items:
        step = item_key(node, item)
        if step is None:
            raise UnidentifiableError
        result.setdefault(step, []).append(item)
    return result


def _compare_repeated(node: Node, old: list[Any], new: list[Any]) -> _Pair:
    """Compare lists in which keys repeat: items of one key count as one value then."""
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
                changed[step] = _LEAF
        elif len(left) > 1:
            removed[step] = _LEAF
            if right:
                changed[step] = everything(item_node, right[0])
        else:
            changed[step] = _LEAF
            if left:
                removed[step] = everything(item_node, left[0])
    return changed or None, removed or None


# --- set operations -----------------------------------------------------------------------------


def _is_member(below: FieldSet) -> bool:
    return not below or "." in below


def _assemble(below: FieldSet, *, member: bool) -> FieldSet | None:
    """What stands below a step, or None when the step is not in the set at all."""
    if below:
        return {".": _LEAF, **below} if member else below
    return _LEAF if member else None


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Fields of either set."""
    if not right or left is right:
        return left
    if not left:
        return right
    result = dict(left)
    for step, below in right.items():
        present = result.get(step)
        if present is None:
            result[step] = below
        elif step != "." and present is not below:
            result[step] = _union_below(present, below)
    return result


def _union_below(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left:
        return left if not right else (right if "." in right else {".": _LEAF, **right})
    if not right:
        return left if "." in left else {".": _LEAF, **left}
    return union(left, right)


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Fields of the first set that are not in the second. The same object when nothing changes."""
    if not left or not right:
        return left
    result: FieldSet | None = None
    for step, below in right.items():
        if step == ".":
            continue
        present = left.get(step)
        if present is None:
            continue
        rest = _difference_below(present, below)
        if rest is present:
            continue
        if result is None:
            result = dict(left)
        if rest is None:
            del result[step]
        else:
            result[step] = rest
    return left if result is None else result


def _difference_below(left: FieldSet, right: FieldSet) -> FieldSet | None:
    was_member = _is_member(left)
    member = was_member and not _is_member(right)
    rest = difference(left, right)
    if rest is left and member == was_member:
        return left
    return _assemble({step: below for step, below in rest.items() if step != "."}, member=member)


def exclude(fields: FieldSet, parts: FieldSet) -> FieldSet:
    """The set without the members of another one and all that is below them."""
    if not fields or not parts:
        return fields
    result = dict(fields)
    for step, below in parts.items():
        present = result.get(step)
        if present is None or step == ".":
            continue
        if _is_member(below):
            del result[step]
        elif present:
            rest = exclude(present, below)
            if rest:
                result[step] = rest
            else:
                del result[step]
    return result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Fields of both sets."""
    if left is right:
        return left
    result: FieldSet = {}
    small, large = (left, right) if len(left) <= len(right) else (right, left)
    for step, below in small.items():
        if step == ".":
            continue
        other = large.get(step)
        if other is None:
            continue
        kept = _assemble(
            intersection(below, other) if below and other else {},
            member=_is_member(below) and _is_member(other),
        )
        if kept is not None:
            result[step] = kept
    return result


def with_named_fields(node: Node, fields: FieldSet) -> FieldSet:
    """The set with every struct field on the way to a member a member itself.

    A struct field is no member of a set built from a value, only what is below it; for telling
    which fields a pruned value lost, it has to count.
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
            inner = {".": _LEAF, **inner}
        result[step] = inner
    return result


# --- paths --------------------------------------------------------------------------------------


def paths(fields: FieldSet, prefix: str = "") -> list[str]:
    """The members as upstream prints them: ``.spec.containers[name="x"].image``.

    In upstream's order: of each set first its own members, then those below.
    """
    steps = [
        (prefix + print_step(step), below)
        for step, below in sorted(fields.items(), key=_order)
        if step != "."
    ]
    found = [where for where, below in steps if _is_member(below)]
    for where, below in steps:
        found += paths(below, where)
    return found


def _order(entry: tuple[str, FieldSet]) -> tuple[str, list[tuple[str, float, str]]]:
    """Steps as upstream sorts them: keys of items by their values, numbers as numbers."""
    step = entry[0]
    kind, _, text = step.partition(":")
    if kind != "k":
        return step, []
    values = sorted(msgspec.json.decode(text).items())
    numbers = (int, float)
    return kind, [
        (key, value, "") if isinstance(value, numbers) else (key, 0, str(value))
        for key, value in values
    ]


def print_step(step: str) -> str:
    """A step as it is printed: ``.spec``, ``[name="x"]``, ``[="value"]``."""
    kind, _, text = step.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = msgspec.json.decode(text)
        shown = (f"{key}={_dump(value).decode()}" for key, value in sorted(keys.items()))
        return f"[{','.join(shown)}]"
    if kind == "v":
        return f"[={text}]"
    return f"[{text}]"
