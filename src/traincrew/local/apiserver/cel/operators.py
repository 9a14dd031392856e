"""Operators of CEL on JSON values, and the budget that every evaluation has.

The first item of a frame is what may still be spent, in the units of cel-go
(``interpreter/runtimecost.go``): one for each node that is evaluated, a tenth for each character
that is read. The other items are the values of the variables.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from .keyedlists import LISTS, KeyedList
from .syntax import Unsigned

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "COMPARISONS",
    "OPERATORS",
    "CelError",
    "CostExceededError",
    "Optional",
    "charge",
    "equal",
    "measure",
    "no_such_overload",
    "type_name",
]

Frame = list[Any]
TRAVERSAL = 0.1
"""Cost of a character."""


class CelError(ValueError):
    """An expression cannot be evaluated; the message is cel-go's.

    Attributes:
        cost: what the evaluation had cost by then, once it has ended.
    """

    cost = 0.0


class CostExceededError(Exception):
    """An evaluation costs more than it may."""


class Optional:
    """An ``optional_type``: of a value, or of nothing."""

    __slots__ = ("present", "value")

    def __init__(self, *values: Any) -> None:
        self.present = bool(values)
        self.value = values[0] if values else None


def no_such_overload() -> CelError:
    """Return the error for operands of wrong types."""
    return CelError("no such overload")


def charge(frame: Frame, cost: float) -> None:
    """Take a cost from the budget.

    Raises:
        CostExceededError: nothing is left.
    """
    frame[0] -= cost
    if frame[0] < 0:
        raise CostExceededError


def measure(frame: Frame, value: Any, share: float = 1) -> float:
    """Return the cost of reading a whole value, and charge that much, times a share.

    The same list may be in a value any number of times, so it is charged while it is read.
    """
    kind = type(value)
    if kind is str or kind is bytes:
        cost = 1 + len(value) * TRAVERSAL
    elif kind in LISTS:
        charge(frame, 2 * len(value))
        return len(value) + sum(measure(frame, item, share) for item in value)
    elif kind is dict:
        charge(frame, len(value))
        return len(value) + sum(
            measure(frame, key, share) + measure(frame, item, share) for key, item in value.items()
        )
    elif kind is Optional:
        return measure(frame, value.value, share)
    else:
        cost = 1
    charge(frame, cost * share)
    return cost


_NUMBERS = frozenset({int, float, Unsigned})


def equal(frame: Frame, left: Any, right: Any) -> bool:
    """Return whether two values are equal; those of different types are not, except numbers."""
    one, other = type(left), type(right)
    if one is not other and not (one in LISTS and other in LISTS):
        return one in _NUMBERS and other in _NUMBERS and bool(left == right)
    if one is str or one is bytes:
        size = len(left)
        if size != len(right):
            return False
        if size > 100:
            charge(frame, size * TRAVERSAL)
        return bool(left == right)
    if one in LISTS:
        if len(left) != len(right):
            return False
        charge(frame, 2 * len(left))
        if one is KeyedList:
            return bool(left.is_equal(right, lambda mine, item: equal(frame, mine, item)))
        return all(equal(frame, item, right[index]) for index, item in enumerate(left))
    if one is dict:
        if len(left) != len(right):
            return False
        charge(frame, len(left))
        return all(key in right and equal(frame, item, right[key]) for key, item in left.items())
    if one is Optional:
        return left.present == right.present and equal(frame, left.value, right.value)
    return bool(left == right)


def _key(value: Any) -> Any:
    """Return a map's key for a number of any type."""
    return int(value) if type(value) is float and value.is_integer() else value


def _contained(frame: Frame, item: Any, container: Any) -> bool:
    kind = type(container)
    if kind is dict:
        return type(item) in {str, int, Unsigned, float, bool} and _key(item) in container
    if kind not in LISTS:
        raise no_such_overload()
    charge(frame, len(container))
    return any(equal(frame, item, each) for each in container)


def _index(frame: Frame, container: Any, index: Any) -> Any:
    del frame
    kind = type(container)
    if kind is dict:
        try:
            return container[_key(index)]
        except KeyError:
            raise CelError(f"no such key: {index}") from None
        except TypeError:
            raise no_such_overload() from None
    if kind not in LISTS or type(index) not in _NUMBERS:
        raise no_such_overload()
    if index != int(index):
        raise CelError(f"unsupported index value: {index}")
    if not 0 <= index < len(container):
        raise CelError(f"index out of bounds: {index}")
    return container[int(index)]


# -- arithmetic

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_ZERO_TIME = datetime(1, 1, 1, tzinfo=UTC)
_LONGEST = timedelta(microseconds=_HIGHEST // 1000)


def _integer(value: int) -> int:
    if not _LOWEST <= value <= _HIGHEST:
        raise CelError("integer overflow")
    return value


def _unsigned(value: int) -> int:
    if not 0 <= value < 1 << 64:
        raise CelError("unsigned integer overflow")
    return Unsigned(value)


def _span(value: timedelta) -> timedelta:
    if not -_LONGEST <= value <= _LONGEST:
        raise CelError("integer overflow")
    return value


def _add(frame: Frame, left: Any, right: Any) -> Any:
    one, other = type(left), type(right)
    if one is int and other is int:
        return _integer(left + right)
    if one is other:
        if one is str or one is bytes:
            charge(frame, (len(left) + len(right)) * TRAVERSAL)
            return left + right
        if one is float:
            return left + right
        if one is Unsigned:
            return _unsigned(int(left) + int(right))
        if one is timedelta:
            return _span(left + right)
    if one in LISTS and other in LISTS:
        charge(frame, len(left) + len(right))
        return left.merged(right) if one is KeyedList else left + right
    try:
        if {one, other} == {datetime, timedelta}:
            return left + right
    except OverflowError:
        raise CelError("timestamp overflow") from None
    raise no_such_overload()


def _subtract(frame: Frame, left: Any, right: Any) -> Any:
    del frame
    one, other = type(left), type(right)
    if one is int and other is int:
        return _integer(left - right)
    if one is other:
        if one is float:
            return left - right
        if one is Unsigned:
            return _unsigned(int(left) - int(right))
        if one is timedelta or one is datetime:
            return _span(left - right)
    try:
        if one is datetime and other is timedelta:
            return left - right
    except OverflowError:
        raise CelError("timestamp overflow") from None
    raise no_such_overload()


def _multiply(frame: Frame, left: Any, right: Any) -> Any:
    del frame
    kind = type(left)
    if kind is not type(right):
        raise no_such_overload()
    if kind is int:
        return _integer(left * right)
    if kind is float:
        return left * right
    if kind is Unsigned:
        return _unsigned(int(left) * int(right))
    raise no_such_overload()


def _divide(frame: Frame, left: Any, right: Any) -> Any:
    del frame
    kind = type(left)
    if kind is not type(right):
        raise no_such_overload()
    if kind is float:
        if right:
            return left / right
        return math.nan if left == 0 or left != left else math.copysign(math.inf, left)  # noqa: PLR0124
    if kind is not int and kind is not Unsigned:
        raise no_such_overload()
    if not right:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right)
    return _of_kind(kind, quotient if (left < 0) == (right < 0) else -quotient)


def _remainder(frame: Frame, left: Any, right: Any) -> Any:
    del frame
    kind = type(left)
    if kind is not type(right) or (kind is not int and kind is not Unsigned):
        raise no_such_overload()
    if not right:
        raise CelError("modulus by zero")
    rest = abs(left) % abs(right)
    return _of_kind(kind, -rest if left < 0 else rest)


def _of_kind(kind: type, value: int) -> int:
    return _integer(value) if kind is int else _unsigned(value)


OPERATORS: dict[str, Callable[[Frame, Any, Any], Any]] = {
    "_+_": _add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": _remainder,
    "_[_]": _index,
    "@in": _contained,
    "_==_": equal,
    "_!=_": lambda frame, left, right: not equal(frame, left, right),
}

_ORDERED = frozenset({str, bytes, bool, datetime, timedelta})


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Frame, Any, Any], bool]:
    def run(frame: Frame, left: Any, right: Any) -> bool:
        one, other = type(left), type(right)
        if one in _NUMBERS and other in _NUMBERS:
            return compare(left, right)
        if one is not other or one not in _ORDERED:
            raise no_such_overload()
        if one is str or one is bytes:
            charge(frame, min(len(left), len(right)) * TRAVERSAL)
        return compare(left, right)

    return run


COMPARISONS: dict[str, Callable[[Frame, Any, Any], bool]] = {
    "_<_": _comparison(lambda left, right: bool(left < right)),
    "_<=_": _comparison(lambda left, right: bool(left <= right)),
    "_>_": _comparison(lambda left, right: bool(left > right)),
    "_>=_": _comparison(lambda left, right: bool(left >= right)),
}


_TYPE_NAMES: dict[Any, str] = {
    bool: "bool",
    int: "int",
    Unsigned: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    KeyedList: "list",
    dict: "map",
    type(None): "null_type",
    datetime: "timestamp",
    timedelta: "duration",
    Optional: "optional_type",
}


def type_name(value: Any) -> str:
    """Return the name of a value's type."""
    return _TYPE_NAMES.get(type(value), "type")
