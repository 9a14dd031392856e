"""Drop what a schema does not know, fill in what it defaults and what Go always writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from .codec import clone
from .nodes import ANY, Node
from .paths import Path, render

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["complete", "drop_unknown", "fill_defaults", "fill_required", "prune", "restore", "zero"]


def prune(
    node: Node, value: dict[str, Any], emptied: list[tuple[Path, Any]] | None = None
) -> list[str]:
    """Remove unknown fields and meaningless values, in place.

    Fields of built-in kinds that Go leaves out when they are empty go as well. Null means "not
    there" for every field that is not ``nullable``; in lists and maps of built-in kinds it becomes
    the empty value, as it does when Go decodes it.

    Args:
        node: schema of the document.
        value: the document.
        emptied: gets the places of the empty lists and maps that go, and what was there.

    Returns:
        Paths of the unknown fields, such as ``spec.containers[0].imag``, in document order.
    """
    unknown: list[Path] = []
    _prune_object(node, value, None, unknown, emptied)
    return [render(path) for path in unknown]


def restore(value: dict[str, Any], emptied: Iterable[tuple[Path, Any]]) -> None:
    """Put the empty lists and maps that `prune` has dropped back where nothing is now, in place."""
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
            continue  # the rest has been made anew


def drop_unknown(node: Node, value: Any) -> bool:
    """Remove the fields a custom resource's schema does not know, and nothing else, in place.

    Returns:
        Whether there were any.
    """
    kind = type(value)
    dropped = False
    if kind is dict and node is not ANY:
        for key in list(value):
            child = node.fields.get(key) or node.values
            if child is None and node.type == "object":
                del value[key]
                dropped = True
            elif child is not None:
                dropped |= drop_unknown(child, value[key])
    elif kind is list and node.items is not None:
        for item in value:
            dropped |= drop_unknown(node.items, item)
    return dropped


def _prune_object(
    node: Node,
    value: dict[str, Any],
    path: Path,
    unknown: list[Path],
    emptied: list[tuple[Path, Any]] | None,
) -> None:
    fields, rest, omit_empty = node.fields, node.values, node.omit_empty
    drop: list[str] | None = None
    for key, item in value.items():
        child = fields.get(key)
        if child is None:
            if rest is ANY:
                continue
            if rest is None:
                unknown.append((path, key))
                drop = [key] if drop is None else [*drop, key]
                continue
            child = rest
        if not item and key in omit_empty and _may_be_empty(child, item):
            if emptied is not None and type(item) in _CONTAINERS:
                emptied.append(((path, key), item))
            drop = [key] if drop is None else [*drop, key]
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
                drop = [key] if drop is None else [*drop, key]
        elif kind is dict:
            if child.type == "object" and child is not ANY:
                _prune_object(child, item, (path, key), unknown, emptied)
            elif _knows_no_field(child):
                unknown.extend(((path, key), each) for each in item)
                item.clear()
        elif kind is list and child.items is not None:
            _prune_list(child.items, item, (path, key), unknown, emptied)
    if drop is not None:
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


def _knows_no_field(node: Node) -> bool:
    """Whether a custom resource has something else there: of an object nothing stays."""
    return bool(node.type) and not node.null_is_absent


def _may_be_empty(node: Node, item: Any) -> bool:
    """Whether an empty value is of the field's type; others are for the checks to refuse."""
    return item is None or not node.type or node.type in _EMPTY_VALUES.get(type(item), ())


def _prune_list(
    node: Node,
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


def _empty(node: Node) -> Any:
    """What Go makes of a null where a value must be."""
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


def fill_defaults(node: Node, value: Any) -> None:
    """Apply the ``default`` values of a custom resource's schema, in place.

    A default is applied inside objects that exist (or came from a default themselves), and to
    nulls that are not ``nullable``.
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


def complete(node: Node, value: Any) -> Any:
    """Make of a document of a built-in kind what Go writes after it has read it, in place.

    Fields that are always written get the value of an empty one, quantities and times their
    canonical form.

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


def _canonical(node: Node, value: Any) -> Any:
    assert node.canonical is not None
    try:
        return node.canonical(value)
    except (ValueError, TypeError):
        return value  # for the checks to complain about


def fill_required(node: Node, value: Any) -> None:
    """Give a part of a built-in object the fields it requires, in place: Go's zero values.

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


def zero(node: Node) -> Any:
    """What Go has where nothing was sent, of a built-in kind."""
    return _empty(node)
