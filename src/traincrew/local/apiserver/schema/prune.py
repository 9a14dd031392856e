"""Pruning of unknown fields, static defaults, and the fields Go always writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.paths import Path, render

from .node import ANY, SchemaNode

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["complete", "drop_unknown", "fill_defaults", "fill_required", "prune", "restore", "zero"]


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
    unknown: list[Path] = []
    _prune_object(node, value, None, unknown, emptied)
    return [render(path) for path in unknown]


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


def _prune_object(
    node: SchemaNode,
    value: dict[str, Any],
    path: Path,
    unknown: list[Path],
    emptied: list[tuple[Path, Any]] | None,
) -> None:
    fields, rest, omit_empty = node.fields, node.values, node.omit_empty
    drop: list[str] = []
    for key, item in value.items():
        child = fields.get(key)
        if child is None:
            if rest is ANY:
                continue
            if rest is None:
                unknown.append((path, key))
                drop.append(key)
                continue
            child = rest
        if not item and key in omit_empty and _may_be_empty(child, item):
            if emptied is not None and type(item) in _CONTAINERS:
                emptied.append(((path, key), item))
            drop.append(key)
            continue
        kind = type(item)
        if kind is str:
            continue
        if item is None:
            if child.nullable or child is ANY:
                continue
            if child is rest and child.null_is_absent and key not in fields:
                value[key] = _empty(child)
            else:
                drop.append(key)
        elif kind is dict:
            if child.type == "object" and child is not ANY:
                _prune_object(child, item, (path, key), unknown, emptied)
            elif _knows_no_field(child):
                unknown.extend(((path, key), each) for each in item)
                item.clear()
        elif kind is list and child.items is not None:
            _prune_list(child.items, item, (path, key), unknown, emptied)
    for key in drop:
        del value[key]


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


def _prune_list(
    node: SchemaNode,
    value: list[Any],
    path: Path,
    unknown: list[Path],
    emptied: list[tuple[Path, Any]] | None,
) -> None:
    if node is ANY:
        return
    for index, item in enumerate(value):
        kind = type(item)
        if kind is dict:
            if node.type == "object":
                _prune_object(node, item, (path, index), unknown, emptied)
            elif _knows_no_field(node):
                unknown.extend(((path, index), each) for each in item)
                item.clear()
        elif kind is list:
            if node.items is not None:
                _prune_list(node.items, item, (path, index), unknown, emptied)
        elif item is None and node.null_is_absent:
            value[index] = _empty(node)


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


def complete(node: SchemaNode, value: Any) -> Any:
    """Bring a document of a built-in kind into the form Go writes after reading it, in place.

    Absent fields that Go always writes get their zero value, quantities and times their canonical
    form.

    Returns:
        The document.
    """
    kind = type(value)
    if kind is dict:
        fields, rest = node.fields, node.values
        for key, item in value.items():
            child = fields.get(key) or rest
            if child is None or item is None:
                continue
            kind = type(item)
            if child.canonical is not None:
                value[key] = _canonical(child, item)
            elif kind is dict or kind is list:
                complete(child, item)
        for key, empty in node.zero.items():
            if key not in value or (empty is None and value[key] == []):
                value[key] = complete(fields[key], {}) if empty == {} else empty
    elif kind is list and node.items is not None and node.items.type == "object":
        for item in value:
            complete(node.items, item)
    return value


def _canonical(node: SchemaNode, value: Any) -> Any:
    assert node.canonical is not None
    try:
        return node.canonical(value)
    except (ValueError, TypeError):
        return value  # the checks report it


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
