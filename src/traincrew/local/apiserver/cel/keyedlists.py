"""Lists whose schema makes them a set or a map: equal in any order, and merged by ``+``.

Rules: ``apiserver/pkg/cel/common/values.go`` (``unstructuredSetList``, ``unstructuredMapList``).
The list on the left decides: a literal that is compared with a set is compared in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .celtypes import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

__all__ = ["LISTS", "KeyedList", "is_keyed", "keys_of"]


class KeyedList(list[Any]):
    """A list with ``x-kubernetes-list-type`` ``set`` or ``map``.

    Upstream looks for keys in the values as they are stored: an item that expressions see as
    another type (a date, a double of ``1``) is in no set.

    Attributes:
        keys: names of the fields that are the key of an item; None for a set.
        stored: the items as they are stored.
    """

    __slots__ = ("keys", "stored")

    def __init__(
        self, items: Sequence[Any], stored: Sequence[Any], keys: tuple[str, ...] | None
    ) -> None:
        super().__init__(items)
        self.keys = keys
        self.stored = stored

    def is_equal(self, others: list[Any], equal: Callable[[Any, Any], bool]) -> bool:
        """Return whether a list of the same length has the same items.

        Args:
            others: any list.
            equal: compares an item of this list with one of the other list.
        """
        found = dict(zip(map(self._key, self.stored), self, strict=True))
        nothing = object()
        for key, item in zip(self._keys_of(others), others, strict=True):
            mine = found.get(key, nothing)
            if mine is nothing or (self.keys is not None and not equal(mine, item)):
                return False
        return True

    def merged(self, others: list[Any]) -> KeyedList:
        """Return this list with the items of another one.

        An item of a map replaces the one with its key; a set has it already.
        """
        items, stored = list(self), list(self.stored)
        places = {self._key(each): index for index, each in enumerate(stored)}
        for key, item in zip(self._keys_of(others), others, strict=True):
            place = places.get(key)
            if place is None:
                items.append(item)
                stored.append(item)
                if self.keys is None:
                    places[key] = len(items)
            elif self.keys is not None:
                items[place] = stored[place] = item
        return KeyedList(items, stored, self.keys)

    def _keys_of(self, others: list[Any]) -> list[Hashable]:
        if self.keys is None:
            return [self._key(each) for each in others]
        stored = others.stored if type(others) is KeyedList else others
        return [self._key(each) for each in stored]

    def _key(self, item: Any) -> Hashable:
        if self.keys is None:
            return _of_type(item)
        if type(item) is not dict:
            return id(item)
        return tuple(_of_type(item.get(key)) for key in self.keys)


LISTS = frozenset({list, KeyedList})
"""Types of the values that expressions see as lists."""


def is_keyed(schema: dict[str, Any]) -> bool:
    """Return whether a schema is that of a set, or of a map by the fields of its items."""
    return schema.get("x-kubernetes-list-type") in {"map", "set"}


def keys_of(schema: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the names of the fields that are the key of a map's items; None for a set."""
    if schema["x-kubernetes-list-type"] == "set":
        return None
    # Upstream looks for escaped names in what is stored: for those that need none, it finds it.
    return tuple(escape(key) or key for key in schema.get("x-kubernetes-list-map-keys") or ())


def _of_type(value: Any) -> Hashable:
    """Return a key by type and value: 1 is neither 1.0 nor true."""
    kind = type(value)
    if kind in LISTS or kind is dict:
        return id(value)
    return kind, value
