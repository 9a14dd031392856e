"""Types of the results of operators and functions."""

from __future__ import annotations

import math
from typing import NamedTuple

from .celtypes import (
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    bind,
    join,
)
from .operators import TRAVERSAL

__all__ = ["COMPARABLE", "NUMBERS", "Overload", "chosen", "equality_cost", "sum_of", "up"]

NUMBERS = frozenset({"int", "uint", "double"})
COMPARABLE = NUMBERS | {"bool", "string", "bytes", "timestamp", "duration", "dyn"}
"""Names of the types whose lists can be sorted."""


class Overload(NamedTuple):
    """One way to call a function.

    Attributes:
        member: whether the first parameter is written before a dot.
        parameters: their types.
        result: the type of the result.
    """

    member: bool
    parameters: tuple[Type, ...]
    result: Type


_SUMS: dict[tuple[str, str, str], Type] = {
    **{("_+_", kind.name, kind.name): kind for kind in (INT, UINT, DOUBLE, STRING, BYTES)},
    **{(f"_{sign}_", kind.name, kind.name): kind for sign in "-*/" for kind in (INT, UINT, DOUBLE)},
    **{("_%_", kind.name, kind.name): kind for kind in (INT, UINT)},
    ("_+_", "timestamp", "duration"): TIMESTAMP,
    ("_+_", "duration", "timestamp"): TIMESTAMP,
    ("_+_", "duration", "duration"): DURATION,
    ("_-_", "timestamp", "duration"): TIMESTAMP,
    ("_-_", "timestamp", "timestamp"): DURATION,
    ("_-_", "duration", "duration"): DURATION,
}


def up(cost: float) -> float:
    """Round a cost up, as upstream does after each step."""
    return cost if math.isinf(cost) else math.ceil(cost)


def sum_of(name: str, one: Type, other: Type) -> tuple[Type | None, float]:
    """Return the type and the cost of an arithmetic operation; no type if there is none."""
    if name == "_+_" and one.name == other.name == "list":
        kind = join(one, other)
        return kind and kind.resized(one.size + other.size), 1
    if "dyn" in {one.name, other.name}:
        return _unknown_sum(name, one, other), 1
    kind = _SUMS.get((name, one.name, other.name))
    if kind is STRING or kind is BYTES:
        size = one.size + other.size
        return kind.resized(size), up(size * TRAVERSAL)
    return kind, 1


def _unknown_sum(name: str, one: Type, other: Type) -> Type:
    """Return the type of an operation with an operand of any type: that of the only overload."""
    found = {
        id(kind): kind
        for (operator, left, right), kind in _SUMS.items()
        if operator == name and one.name in {left, "dyn"} and other.name in {right, "dyn"}
    }
    return next(iter(found.values())) if len(found) == 1 else DYN


_COMPARED_AT_ONCE = frozenset({"kubernetes.Quantity", "kubernetes.Semver", "net.IP", "net.CIDR"})
_LONGEST_FORMAT = 64


def equality_cost(one: Type, other: Type) -> float:
    """Return what it costs at most to compare two values."""
    if one.name == other.name:
        if one.name in _COMPARED_AT_ONCE:
            return 1
        if one.name == "kubernetes.NamedFormat":
            return up(_LONGEST_FORMAT * TRAVERSAL)
    return up(min(one.size, other.size) * TRAVERSAL)


def chosen(overloads: list[Overload], kinds: list[Type], *, member: bool) -> Type | None:
    """Return the type of a call's result; None if no overload takes these arguments."""
    results: list[Type] = []
    for overload in overloads:
        if overload.member != member or len(overload.parameters) != len(kinds):
            continue
        bound: dict[str, Type] = {}
        if all(map(bind, overload.parameters, kinds, [bound] * len(kinds))):
            results.append(_replaced(overload.result, bound))
    if not results:
        return None
    return results[0] if len({str(each) for each in results}) == 1 else DYN


def _replaced(kind: Type, bound: dict[str, Type]) -> Type:
    """Replace the parameters of a type by what they stand for."""
    if len(kind.name) == 1:
        return bound.get(kind.name, DYN)
    if not kind.of:
        return kind
    return Type(kind.name, tuple(_replaced(each, bound) for each in kind.of), kind.size)
