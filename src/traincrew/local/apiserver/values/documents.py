"""Documents: JSON objects, and access to parts that may be missing or of another type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Document", "field", "items"]

Document = dict[str, Any]
"""An object decoded from JSON."""


def field(document: Any, *keys: str) -> Document:
    """Return a nested object; a new empty one if there is none."""
    for key in keys:
        document = document.get(key) if type(document) is dict else None
    return document if type(document) is dict else {}


def items(document: Any, *keys: str) -> Iterator[Document]:
    """Yield the objects in a nested list."""
    found = field(document, *keys[:-1]).get(keys[-1])
    if type(found) is list:
        for item in found:
            if type(item) is dict:
                yield item
