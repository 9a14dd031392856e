"""Documents: JSON objects, and access to parts that may be missing or of another type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Document", "field", "items", "same"]

Document = dict[str, Any]
"""An object decoded from JSON."""


def field(document: Any, *keys: str) -> Document:
    """Return a nested object; a new empty one if there is none."""
    for key in keys:
        if type(document) is not dict:
            return {}
        document = document.get(key)
    return document if type(document) is dict else {}


def items(document: Any, *keys: str) -> Iterable[Document]:
    """Return the objects in a nested list; nothing if there is none."""
    for key in keys:
        if type(document) is not dict:
            return ()
        document = document.get(key)
    if type(document) is not list:
        return ()
    # A list and not a generator: these lists are short, and most fields have none.
    return [item for item in document if type(item) is dict]


def same(left: Any, right: Any) -> bool:
    """Return whether two documents are equal, booleans and numbers apart (in Python 1 == True)."""
    return bool(left == right) and _same_booleans(left, right)


def _same_booleans(left: Any, right: Any) -> bool:
    kind = type(left)
    if kind is dict:
        return all(_same_booleans(item, right[key]) for key, item in left.items())
    if kind is list:
        return all(map(_same_booleans, left, right))
    return (kind is bool) == (type(right) is bool)
