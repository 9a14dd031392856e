"""Keep one copy of values that thousands of cached objects repeat.

Fields marked as `objects.SHARED` are replaced by an equal value that is there already when an
object enters a cache: strings, and whole parts such as the spec of the pods of one job. An updated
object reuses what did not change from its predecessor, which costs a comparison instead of a walk
through all fields, and lets indices compare owners by identity.
"""

from __future__ import annotations

from functools import cache
from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import inspect
from msgspec.structs import force_setattr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traincrew.engine.objects import HasMetadata


_Step = tuple[str, "Callable[[Any], Any]"]

_REMEMBERED = 4096
"""Parts of one type among which an equal one is found: those seen last, twice as many at most.

Objects that are alike come together: pods of a job, pages of a list.
"""


class _Recent:
    """Returns the first one of equal values, among those that were seen lately."""

    __slots__ = ("_before", "_now", "_walk")

    def __init__(self, walk: Callable[[Any], Any] | None) -> None:
        self._walk = walk
        self._now: dict[Any, Any] = {}
        self._before: dict[Any, Any] = {}

    def __call__(self, value: Any) -> Any:
        if not value:
            return value
        found = self._now.get(value)
        if found is None:
            found = self._before.get(value)
            if found is None:
                found = value if self._walk is None else self._walk(value)
            if len(self._now) >= _REMEMBERED:
                self._before, self._now = self._now, {}
            self._now[found] = found
        return found


class Sharer(NamedTuple):
    """Shares parts of an object.

    Attributes:
        whole: All of them.
        changed: Those of an object that replaces one in a cache: all but its metadata, see `adopt`.
    """

    whole: Callable[[Any], Any]
    changed: Callable[[Any], Any]


def adopt(obj: HasMetadata, old: HasMetadata) -> None:
    """Make an updated object reuse the metadata of its predecessor where it is equal."""
    new, before = obj.metadata, old.metadata
    force_setattr(new, "namespace", before.namespace)
    if new.owner_references == before.owner_references:
        force_setattr(new, "owner_references", before.owner_references)
    if new.labels == before.labels:
        force_setattr(new, "labels", before.labels)


@cache  # inspecting a type costs more than starting its watch
def sharer(type: type[msgspec.Struct]) -> Sharer:  # noqa: A002
    """Return what shares the `objects.SHARED` parts of objects of this type."""
    info = inspect.type_info(type)
    assert isinstance(info, inspect.StructType)
    steps = _steps(info, {})
    return Sharer(
        _walk_struct(steps), _walk_struct([step for step in steps if step[0] != "metadata"])
    )


def _compile(info: inspect.Type, seen: dict[type, Any]) -> Callable[[Any], Any] | None:
    """Return a function that shares the parts of a value; ``None`` if none are shared.

    It returns the value itself, or the one to put in its place.
    """
    if isinstance(info, inspect.Metadata):
        if not (info.extra or {}).get("shared"):
            return _compile(info.type, seen)
        return (
            intern if isinstance(info.type, inspect.StrType) else _Recent(_compile(info.type, seen))
        )
    if isinstance(info, inspect.UnionType):
        return _compile_optional(info, seen)
    if isinstance(info, inspect.ListType):
        item = _compile(info.item_type, seen)
        return _in_list(item) if item else None
    if isinstance(info, inspect.VarTupleType):
        item = _compile(info.item_type, seen)
        return _in_tuple(item) if item else None
    if isinstance(info, inspect.DictType):
        value = _compile(info.value_type, seen)
        return _in_dict(value) if value else None
    if isinstance(info, inspect.StructType):
        return _compile_struct(info, seen)
    return None


def _compile_optional(
    info: inspect.UnionType, seen: dict[type, Any]
) -> Callable[[Any], Any] | None:
    rest = [item for item in info.types if not isinstance(item, inspect.NoneType)]
    walk = _compile(rest[0], seen) if len(rest) == 1 else None
    if walk is None:
        return None
    return lambda value: None if value is None else walk(value)


def _compile_struct(info: inspect.StructType, seen: dict[type, Any]) -> Callable[[Any], Any] | None:
    steps = _steps(info, seen)
    return _walk_struct(steps) if steps else None


def _steps(info: inspect.StructType, seen: dict[type, Any]) -> list[_Step]:
    if info.cls in seen:
        return []  # a recursive type: the inner values are left as they are
    seen[info.cls] = None
    walks = [(field.name, _compile(field.type, seen)) for field in info.fields]
    del seen[info.cls]
    return [(name, walk) for name, walk in walks if walk is not None]


def _walk_struct(steps: Sequence[_Step]) -> Callable[[Any], Any]:
    def walk_struct(obj: Any) -> Any:
        for name, walk in steps:
            value = getattr(obj, name)
            shared = walk(value)
            if shared is not value:
                force_setattr(obj, name, shared)
        return obj

    return walk_struct


def _in_list(walk: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def walk_list(values: list[Any]) -> list[Any]:
        for number, value in enumerate(values):
            values[number] = walk(value)
        return values

    return walk_list


def _in_tuple(walk: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def walk_tuple(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(walk, values)) if values else values

    return walk_tuple


def _in_dict(walk: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def walk_dict(values: dict[Any, Any]) -> dict[Any, Any]:
        for key, value in values.items():
            values[key] = walk(value)  # replaces values only; the keys stay
        return values

    return walk_dict
