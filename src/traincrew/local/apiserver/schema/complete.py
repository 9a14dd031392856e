"""The form in which Go writes an object of a built-in kind."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .node import SchemaNode

__all__ = ["complete"]


def complete(node: SchemaNode, value: Any) -> Any:
    """Bring a document of a built-in kind into the form Go writes after reading it, in place.

    Absent fields that Go always writes get their zero value, quantities and times their canonical
    form.

    Returns:
        The document.
    """
    kind = type(value)
    if kind is dict:
        named = _named(node)
        # Of many fields an object may have few.
        for key in list(value) if len(value) < len(named) else named:
            if (item := value.get(key)) is not None and (child := named.get(key)) is not None:
                _complete_entry(child, value, key, item)
        rest = node.values
        if rest is not None and _is_changed(rest):
            for key, item in value.items():
                if key not in node.fields and item is not None:
                    _complete_entry(rest, value, key, item)
        for key, empty in node.zero.items():
            if key not in value or (empty is None and value[key] == []):
                value[key] = complete(node.fields[key], {}) if empty == {} else empty
    elif kind is list and node.items is not None and node.items.type == "object":
        always, named = _is_always_changed(node.items), _named(node.items)
        for item in value:
            # Of most lists, such as those of variables, nothing has to be changed.
            if type(item) is dict and (always or not named.keys().isdisjoint(item)):
                complete(node.items, item)
    return value


def _complete_entry(node: SchemaNode, parent: dict[str, Any], key: str, item: Any) -> None:
    if node.canonical is not None:
        try:
            parent[key] = node.canonical(item)
        except (ValueError, TypeError):
            return  # the checks report it
    elif type(item) is dict or type(item) is list:
        complete(node, item)


@cache
def _named(node: SchemaNode) -> dict[str, SchemaNode]:
    """Return the named fields that `complete` may change: a few of many."""
    return {key: child for key, child in node.fields.items() if _is_changed(child)}


@cache
def _is_always_changed(node: SchemaNode) -> bool:
    """Return whether `complete` may change an object that has none of the `_named` fields."""
    return bool(node.zero) or (node.values is not None and _is_changed(node.values))


_CHANGED: dict[SchemaNode, bool] = {}


def _is_changed(node: SchemaNode) -> bool:
    """Return whether `complete` may change a value or a part of it."""
    if node not in _CHANGED:
        _CHANGED[node] = True  # meanwhile, for nodes that contain themselves
        parts = [part for part in (node.values, node.items) if part is not None]
        _CHANGED[node] = (
            node.canonical is not None
            or bool(node.zero)
            or any(_is_changed(part) for part in [*node.fields.values(), *parts])
        )
    return _CHANGED[node]
