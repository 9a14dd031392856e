"""Keep one copy of values that thousands of cached objects repeat.

Fields annotated `objects.Shared` are interned when an object enters a cache. An updated object
reuses what did not change from its predecessor, which costs a comparison instead of a walk
through all fields, and lets indices compare owners by identity.
"""

from __future__ import annotations

from functools import cache
from sys import intern
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect
from msgspec.structs import force_setattr

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.engine.objects import HasMetadata


def adopt(obj: HasMetadata, old: HasMetadata) -> None:
    """Make an updated object reuse the metadata of its predecessor where it is equal."""
    new, before = obj.metadata, old.metadata
    force_setattr(new, "namespace", before.namespace)
    if new.owner_references == before.owner_references:
        force_setattr(new, "owner_references", before.owner_references)
    if new.labels == before.labels:
        force_setattr(new, "labels", before.labels)


@cache  # inspecting a type costs more than starting its watch
def sharer(type: type[msgspec.Struct]) -> Callable[[Any], None]:  # noqa: A002
    """Return a function that interns all `objects.Shared` strings inside an object of this type."""
    walk = _compile(inspect.type_info(type), {})

    def share(obj: Any) -> None:
        if walk is not None:
            walk(obj)

    return share


def _compile(info: inspect.Type, seen: dict[type, Any]) -> Callable[[Any], Any] | None:
    """Return a function that interns the strings in a value; ``None`` if none are shared."""
    if isinstance(info, inspect.Metadata):
        if (info.extra or {}).get("shared"):
            return intern
        return _compile(info.type, seen)
    if isinstance(info, inspect.UnionType):
        return _compile_optional(info, seen)
    if isinstance(info, inspect.ListType):
        item = _compile(info.item_type, seen)
        return _in_list(item) if item else None
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
    if info.cls in seen:
        return None  # a recursive type: the inner values are left as they are
    seen[info.cls] = None
    walks = [(field.name, _compile(field.type, seen)) for field in info.fields]
    del seen[info.cls]
    steps = [(name, walk) for name, walk in walks if walk is not None]
    if not steps:
        return None

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


def _in_dict(walk: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def walk_dict(values: dict[Any, Any]) -> dict[Any, Any]:
        for key, value in values.items():
            values[key] = walk(value)  # replaces values only; the keys stay
        return values

    return walk_dict
