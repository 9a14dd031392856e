"""Pruning of unknown fields, static defaults, and Go's zero values."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.paths import Path, render

from .checks import check
from .node import ANY, SchemaNode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.local.apiserver.values.causes import Cause

__all__ = [
    "Pruned",
    "drop_unknown",
    "fill_defaults",
    "fill_required",
    "prune",
    "prune_and_check",
    "restore",
    "zero",
]


class Pruned(NamedTuple):
    """What `prune_and_check` has found.

    Attributes:
        unknown: paths of the unknown fields, such as ``spec.containers[0].imag``, in document
            order.
        valid: whether `checks.check` has nothing to report about what is left.
    """

    unknown: list[str]
    valid: bool


def prune_and_check(
    node: SchemaNode, value: dict[str, Any], emptied: list[tuple[Path, Any]] | None = None
) -> Pruned:
    """Remove unknown fields and meaningless values, in place, and check the others.

    One pass over a document for both costs little more than for one, and nearly all documents are
    valid. `checks.check` finds the errors of the others.

    Args:
        node: schema of the document, of a built-in kind.
        value: the document.
        emptied: see `prune`.
    """
    walk = _Walk(emptied, check=True)
    _prune_object(node, value, None, walk)
    return Pruned([render(path) for path in walk.unknown], walk.valid)


def prune(
    node: SchemaNode, value: dict[str, Any], emptied: list[tuple[Path, Any]] | None = None
) -> list[str]:
    """Remove unknown fields and meaningless values, in place.

    Fields of built-in kinds that Go omits when empty are removed as well. Null means "absent" for
    every field that is not ``nullable``; in lists and maps of built-in kinds it becomes the empty
    value, as it does when Go decodes it.

    Args:
        node: schema of the document.
        value: the document.
        emptied: extended with the paths and values of the empty lists and maps that are removed.

    Returns:
        Paths of the unknown fields, such as ``spec.containers[0].imag``, in document order.
    """
    walk = _Walk(emptied, check=False)
    _prune_object(node, value, None, walk)
    return [render(path) for path in walk.unknown]


def restore(value: dict[str, Any], emptied: Iterable[tuple[Path, Any]]) -> None:
    """Restore the empty lists and maps that `prune` removed and nothing replaced, in place."""
    for path, item in emptied:
        steps: list[str | int] = []
        rest = path
        while rest is not None:
            rest, step = rest
            steps.append(step)
        *outer, last = reversed(steps)
        place: Any = value
        try:
            for step in outer:
                place = place[step]
            place.setdefault(last, item)
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # the parent has been replaced since


def drop_unknown(node: SchemaNode, value: Any) -> list[str]:
    """Remove the fields a custom resource's schema does not know, and nothing else, in place.

    Returns:
        The fields of an object that were removed, or from which some were; for a list, those of its
        items.
    """
    kind = type(value)
    found: list[str] = []
    if kind is dict and node is not ANY:
        for key in list(value):
            child = node.fields.get(key) or node.values
            if child is None and node.type == "object":
                del value[key]
                found.append(key)
            elif child is not None and drop_unknown(child, value[key]):
                found.append(key)
    elif kind is list and node.items is not None:
        for item in value:
            found += drop_unknown(node.items, item)
    return found


class _Walk:
    """What one pass over a document collects; with `check` also whether it is valid so far."""

    __slots__ = ("emptied", "unknown", "valid")

    def __init__(self, emptied: list[tuple[Path, Any]] | None, *, check: bool) -> None:
        self.emptied = emptied
        self.unknown: list[Path] = []
        self.valid = check

    def check(self, node: SchemaNode, value: Any) -> None:
        if self.valid:
            found: list[Cause] = []
            check(node, value, None, found)
            self.valid = not found


_NO_TEXTS: frozenset[str] = frozenset()


@cache
def _free_texts(node: SchemaNode) -> frozenset[str]:
    """Return the fields of a built-in object that may be any string."""
    return frozenset(
        key for key, child in node.fields.items() if child.type == "string" and child.rules is None
    )


def _prune_object(node: SchemaNode, value: dict[str, Any], path: Path, walk: _Walk) -> None:
    fields, rest, omit_empty = node.fields, node.values, node.omit_empty
    texts = _free_texts(node) if walk.valid else _NO_TEXTS
    drop: list[str] = []
    for key, item in value.items():
        if key in texts and item and type(item) is str:
            continue  # most values
        child = fields.get(key)
        if child is None:
            if rest is ANY:
                continue
            if rest is None:
                walk.unknown.append((path, key))
                drop.append(key)
                continue
            child = rest
        if not item and key in omit_empty and _may_be_empty(child, item):
            if walk.emptied is not None and type(item) in _CONTAINERS:
                walk.emptied.append(((path, key), item))
            drop.append(key)
            continue
        kind = type(item)
        if kind is str:
            if child.rules is not None or child.type != "string":
                walk.check(child, item)
        elif item is None:
            if child.nullable or child is ANY:
                continue
            if child is rest and child.null_is_absent and key not in fields:
                value[key] = _empty(child)
                walk.valid = False  # it may lack what is required
            else:
                drop.append(key)
        elif kind is dict:
            if child.type == "object" and child is not ANY:
                _prune_object(child, item, (path, key), walk)
            else:
                walk.valid = False
                if _knows_no_field(child):
                    walk.unknown.extend(((path, key), each) for each in item)
                    item.clear()
        elif kind is list and child.items is not None:
            _prune_list(child.items, item, (path, key), walk)
        else:
            walk.check(child, item)
    for key in drop:
        del value[key]
    for key in node.required:
        if value.get(key, "") == "":
            walk.valid = False


_CONTAINERS = (dict, list)
_EMPTY_VALUES = {
    dict: ("object",),
    list: ("array",),
    str: ("string", "quantity", "int-or-string"),
    int: ("integer", "number", "quantity", "int-or-string"),
    float: ("number", "quantity"),
    bool: ("boolean",),
}


def _knows_no_field(node: SchemaNode) -> bool:
    """Return whether a custom resource's field is of another type: an object loses all fields."""
    return bool(node.type) and not node.null_is_absent


def _may_be_empty(node: SchemaNode, item: Any) -> bool:
    """Return whether an empty value has the field's type; the checks refuse others."""
    return item is None or not node.type or node.type in _EMPTY_VALUES.get(type(item), ())


def _prune_list(node: SchemaNode, value: list[Any], path: Path, walk: _Walk) -> None:
    if node is ANY:
        return
    for index, item in enumerate(value):
        kind = type(item)
        if kind is dict:
            if node.type == "object":
                _prune_object(node, item, (path, index), walk)
            else:
                walk.valid = False
                if _knows_no_field(node):
                    walk.unknown.extend(((path, index), each) for each in item)
                    item.clear()
        elif kind is list and node.items is not None:
            _prune_list(node.items, item, (path, index), walk)
        elif item is None and node.null_is_absent:
            value[index] = _empty(node)
            walk.valid = False  # it may lack what is required
        elif kind is not str or node.rules is not None or node.type != "string":
            walk.check(node, item)


def _empty(node: SchemaNode) -> Any:
    """Return the value Go decodes null to where null is not allowed."""
    return {
        "string": "",
        "integer": 0,
        "number": 0,
        "boolean": False,
        "object": {},
        "array": [],
        "quantity": "0",
        "int-or-string": 0,
    }[node.type]


def fill_defaults(node: SchemaNode, value: Any) -> None:
    """Apply the ``default`` values of a custom resource's schema, in place.

    A default is applied inside objects that exist (or come from a default themselves), and
    replaces null in fields that are not ``nullable``.
    """
    if type(value) is dict:
        for key, child in node.fields.items():
            if not child.has_defaults:
                continue
            item = value.get(key)
            if item is None and (key not in value or not child.nullable):
                if child.default is msgspec.UNSET:
                    continue
                item = value[key] = clone(child.default)
            if item is not None:
                fill_defaults(child, item)
        rest = node.values
        if rest is not None and rest.has_defaults:
            for key, item in value.items():
                if key in node.fields:
                    continue
                if item is None and not rest.nullable and rest.default is not msgspec.UNSET:
                    value[key] = clone(rest.default)
                fill_defaults(rest, value[key])
    elif type(value) is list and node.items is not None and node.items.has_defaults:
        for index, item in enumerate(value):
            if item is None and not node.items.nullable and node.items.default is not msgspec.UNSET:
                value[index] = clone(node.items.default)
            fill_defaults(node.items, value[index])


def fill_required(node: SchemaNode, value: Any) -> None:
    """Fill in the required fields of a part of a built-in object with Go's zero values, in place.

    Args:
        node: schema of the part.
        value: the part.
    """
    kind = type(value)
    if kind is dict:
        for name in node.required:
            if value.get(name) is None and node.fields[name].type != "int-or-string":
                value[name] = zero(node.fields[name])
        for key, item in value.items():
            child = node.fields.get(key) or node.values
            if child is not None:
                fill_required(child, item)
    elif kind is list and node.items is not None:
        for item in value:
            fill_required(node.items, item)


def zero(node: SchemaNode) -> Any:
    """Return Go's zero value for a place of a built-in kind."""
    return _empty(node)
