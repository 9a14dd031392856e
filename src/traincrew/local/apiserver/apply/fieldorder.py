"""The order in which upstream writes field sets, which clients may compare as text.

Semantics: sigs.k8s.io/structured-merge-diff (``fieldpath.PathElement.Less``, ``value.Compare``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from .fieldsets import FieldSet

__all__ = ["in_order", "sort_steps"]

_decode = msgspec.json.decode
# Numbers before strings before booleans; those of one type by their value.
_TYPES: dict[type, int] = {int: 0, float: 0, str: 1, bool: 2}


def in_order(fields: FieldSet) -> FieldSet:
    """Return the set with its steps in order; the same object if they already are."""
    moved: FieldSet = {}
    for step, inner in fields.items():
        if inner and (ordered := in_order(inner)) is not inner:
            moved[step] = ordered
    return sort_steps(fields | moved if moved else fields)


def sort_steps(fields: FieldSet) -> FieldSet:
    """Return the set with its first steps in order; the same object if they already are."""
    given = list(fields)
    if len(given) > 1:
        steps = sorted(given)
        # Field names sort as they are, before all others. Other steps occur beside them where one
        # manager has a list and another a map.
        if steps[-1][:1] not in ".f":
            steps = sorted(given, key=_rank)
        if steps != given:
            return {step: fields[step] for step in steps}
    return fields


def _rank(step: str) -> tuple[Any, ...]:
    return _short_rank(step) if len(step) < _SHORT else _any_rank(step)


def _any_rank(step: str) -> tuple[Any, ...]:
    kind = step[:2]
    if kind == "f:":
        return (1, step)
    if kind == "k:":
        items = sorted(_decode(step[2:]).items())
        return (2, *((name, *_value(value)) for name, value in items))
    if kind == "v:":
        return (3, _value(_decode(step[2:])))
    return (0,) if step == "." else (4, step)


_SHORT = 100
# Most keys of lists are those of other objects, too: names of containers, variables, ports.
_short_rank = lru_cache(maxsize=4096)(_any_rank)


def _value(value: Any) -> tuple[int, Any]:
    rank = _TYPES.get(type(value))
    return (len(_TYPES), repr(value)) if rank is None else (rank, value)
