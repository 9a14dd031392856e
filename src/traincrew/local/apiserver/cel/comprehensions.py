"""Evaluation of comprehensions: every macro that iterates over a list or a map."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from .keyedlists import LISTS
from .operators import CelError, CostExceededError, Frame, charge, no_such_overload
from .parts import decide
from .syntax import Unsigned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .parts import Part

    Run = Callable[[Frame], Any]
    Turns = Callable[[Frame], Iterator[None]]


def _turns(values: Run, slots: Sequence[int], weight: float) -> Turns:
    """Return what sets the variables for each turn, and charges for it.

    One variable is an item or a key; two are index and item, or key and value.
    """
    first, *rest = slots

    def one(frame: Frame) -> Iterator[None]:
        for item in _iterable(values(frame)):
            frame[0] -= weight
            if frame[0] < 0:
                raise CostExceededError
            frame[first] = item
            yield

    def two(frame: Frame) -> Iterator[None]:
        (second,) = rest
        found = _iterable(values(frame))
        for key, item in found.items() if type(found) is dict else enumerate(found):
            charge(frame, weight)
            frame[first], frame[second] = key, item
            yield

    return two if rest else one


def _iterable(value: Any) -> Any:
    if type(value) in LISTS or type(value) is dict:
        return value
    raise CelError(f"unsupported comprehension range type: types.{_GO_TYPES.get(type(value))}")


_GO_TYPES = {
    bool: "Bool",
    int: "Int",
    Unsigned: "Uint",
    float: "Double",
    str: "String",
    bytes: "Bytes",
    type(None): "Null",
    datetime: "Timestamp",
    timedelta: "Duration",
}


def _true(frame: Frame, test: Run) -> bool:
    value = test(frame)
    if type(value) is not bool:
        raise no_such_overload()
    return value


def quantifier(values: Run, slots: Sequence[int], body: Part, decisive: bool) -> Run:
    """Evaluate ``exists`` (decided by true) or ``all`` (by false)."""
    test, turns = body.run, _turns(values, slots, body.weight + 3)
    return lambda frame: decide(frame, (test for _ in turns(frame)), decisive)


def exists_one(values: Run, slots: Sequence[int], body: Part) -> Run:
    """Evaluate ``existsOne``, which errors end."""
    test, turns = body.run, _turns(values, slots, body.weight + 3)
    return lambda frame: sum(_true(frame, test) for _ in turns(frame)) == 1


def _chosen(values: Run, slots: Sequence[int], condition: Part | None, body: Part) -> Turns:
    """Return the turns for which a condition holds."""
    weight = body.weight + (condition.weight if condition else 0) + 5
    turns = _turns(values, slots, weight)
    if condition is None:
        return turns
    test = condition.run
    return lambda frame: (None for _ in turns(frame) if _true(frame, test))


def collect(values: Run, slots: Sequence[int], condition: Part | None, body: Part) -> Run:
    """Evaluate ``map``, ``filter`` and ``transformList``."""
    result, turns = body.run, _chosen(values, slots, condition, body)
    return lambda frame: [result(frame) for _ in turns(frame)]


def transform(values: Run, slots: Sequence[int], condition: Part | None, body: Part) -> Run:
    """Evaluate ``transformMap``: the keys, or indices, stay."""
    key, result, turns = slots[0], body.run, _chosen(values, slots, condition, body)
    return lambda frame: dict((frame[key], result(frame)) for _ in turns(frame))  # noqa: C402


def merge(values: Run, slots: Sequence[int], condition: Part | None, body: Part) -> Run:
    """Evaluate ``transformMapEntry``: the union of maps that share no key."""
    result, turns = body.run, _chosen(values, slots, condition, body)

    def run(frame: Frame) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for _ in turns(frame):
            entries = result(frame)
            if type(entries) is not dict:
                raise no_such_overload()
            charge(frame, len(entries))
            for key, value in entries.items():
                if key in found:
                    raise CelError(f"insert failed: key {key} already exists")
                found[key] = value
        return found

    return run


_COMPARABLE = frozenset({int, Unsigned, float, bool, str, bytes, timedelta, datetime})


def sort_by(values: Run, slots: Sequence[int], body: Part) -> Run:
    """Evaluate ``sortBy``: the keys are of one type."""
    key, weight = body.run, body.weight + 5

    def run(frame: Frame) -> list[Any]:
        items = values(frame)
        if type(items) is not list:
            raise no_such_overload()
        keys = [key(frame) for _ in _turns(lambda _: items, slots, weight)(frame)]
        charge(frame, len(keys) ** 2)
        kinds = set(map(type, keys))
        if not kinds <= _COMPARABLE:
            raise CelError("list elements must be comparable")
        if len(kinds) > 1:
            raise CelError("list elements must have the same type")
        return [items[index] for index in sorted(range(len(keys)), key=keys.__getitem__)]

    return run
