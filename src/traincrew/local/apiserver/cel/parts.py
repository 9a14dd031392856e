"""Compiled parts of an expression, and how they are evaluated: one closure for each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .keyedlists import LISTS
from .operators import CelError, Frame, Optional, no_such_overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .celtypes import Type

__all__ = ["LazyFields", "Part"]


class Part(NamedTuple):
    """A compiled node.

    Attributes:
        run: evaluates it on a frame.
        kind: its type; with the largest size that its value may have.
        cost: what it may cost at most, in cel-go's units.
        weight: what evaluating it costs, without loops and without what depends on sizes.
    """

    run: Callable[[Frame], Any]
    kind: Type
    cost: float
    weight: int


class LazyFields:
    """An object whose fields are computed when they are first used, and paid for then.

    Args:
        compute: returns the value of a field, and what it has cost; gets the name and what may be
            spent.
        names: of the fields.
    """

    __slots__ = ("_compute", "_known", "_names")

    def __init__(
        self, compute: Callable[[str, float], tuple[Any, float]], names: Iterable[str]
    ) -> None:
        self._compute = compute
        self._names = frozenset(names)
        self._known: dict[str, Any] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def get(self, frame: Frame, name: str) -> Any:
        """Return the value of a field.

        Raises:
            CelError: it cannot be computed.
            CostExceededError: it costs more than may be spent.
        """
        if name not in self._known:
            self._known[name], cost = self._compute(name, frame[0])
            frame[0] -= cost
        return self._known[name]


def constant(value: Any) -> Callable[[Frame], Any]:
    return lambda _: value


def variable(slot: int) -> Callable[[Frame], Any]:
    return lambda frame: frame[slot]


_MISSING: Any = object()


def select(operand: Callable[[Frame], Any], key: str) -> Callable[[Frame], Any]:
    def run(frame: Frame) -> Any:
        value = operand(frame)
        if type(value) is dict:
            found = value.get(key, _MISSING)
            if found is _MISSING:
                raise CelError(f"no such key: {key}")
            return found
        if type(value) is LazyFields:
            return value.get(frame, key)
        if type(value) is Optional:
            return select_optional(lambda _: value, key)(frame)
        raise no_such_overload()

    return run


def select_optional(operand: Callable[[Frame], Any], key: str) -> Callable[[Frame], Any]:
    def run(frame: Frame) -> Any:
        value = operand(frame)
        if type(value) is Optional:
            if not value.present:
                return value
            value = value.value
        if type(value) is not dict:
            raise no_such_overload()
        return Optional(value[key]) if key in value else Optional()

    return run


def index_optional(
    operand: Callable[[Frame], Any], index: Callable[[Frame], Any]
) -> Callable[[Frame], Any]:
    def run(frame: Frame) -> Any:
        value, key = operand(frame), index(frame)
        if type(value) is Optional:
            if not value.present:
                return value
            value = value.value
        try:
            if type(value) in LISTS:
                return Optional(value[key]) if 0 <= key < len(value) else Optional()
            if type(value) is dict:
                return Optional(value[key]) if key in value else Optional()
        except TypeError:
            pass
        raise no_such_overload()

    return run


def has(operand: Callable[[Frame], Any], key: str) -> Callable[[Frame], Any]:
    def run(frame: Frame) -> bool:
        value = operand(frame)
        if type(value) is Optional:
            value = value.value
            if value is None:
                return False
        if type(value) is not dict and type(value) is not LazyFields:
            raise no_such_overload()
        return key in value

    return run


def binary(
    operator: Callable[[Frame, Any, Any], Any],
    left: Callable[[Frame], Any],
    right: Callable[[Frame], Any],
) -> Callable[[Frame], Any]:
    return lambda frame: operator(frame, left(frame), right(frame))


def decide(frame: Frame, operands: Iterable[Callable[[Frame], Any]], decisive: bool) -> bool:
    """Evaluate operands until one has the decisive value: errors count only if none has."""
    failed: CelError | None = None
    for operand in operands:
        try:
            value = operand(frame)
            if value is decisive:
                return value is True
            if type(value) is not bool:
                failed = failed or no_such_overload()
        except CelError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return not decisive


def logical(operands: Sequence[Callable[[Frame], Any]], decisive: bool) -> Callable[[Frame], Any]:
    """Evaluate ``||`` (decided by true) or ``&&`` (by false)."""
    return lambda frame: decide(frame, operands, decisive)


def negate(operand: Callable[[Frame], Any]) -> Callable[[Frame], Any]:
    def run(frame: Frame) -> bool:
        value = operand(frame)
        if type(value) is not bool:
            raise no_such_overload()
        return not value

    return run


def minus(operand: Callable[[Frame], Any]) -> Callable[[Frame], Any]:
    def run(frame: Frame) -> Any:
        value = operand(frame)
        if type(value) is int:
            if value == -(1 << 63):
                raise CelError("integer overflow")
            return -value
        if type(value) is float:
            return -value
        raise no_such_overload()

    return run


def choice(
    condition: Callable[[Frame], Any],
    chosen: Callable[[Frame], Any],
    other: Callable[[Frame], Any],
) -> Callable[[Frame], Any]:
    def run(frame: Frame) -> Any:
        value = condition(frame)
        if value is True:
            return chosen(frame)
        if value is False:
            return other(frame)
        raise no_such_overload()

    return run


def sequence(
    items: Sequence[Callable[[Frame], Any]], marks: Sequence[bool]
) -> Callable[[Frame], Any]:
    if not any(marks):
        return lambda frame: [item(frame) for item in items]

    def run(frame: Frame) -> list[Any]:
        result = []
        for item, mark in zip(items, marks, strict=True):
            value = item(frame)
            if not mark:
                result.append(value)
            elif value.present:
                result.append(value.value)
        return result

    return run


def mapping(
    entries: Sequence[tuple[Callable[[Frame], Any], Callable[[Frame], Any]]],
    marks: Sequence[bool],
) -> Callable[[Frame], Any]:
    def run(frame: Frame) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for (key_of, value_of), mark in zip(entries, marks, strict=True):
            key, value = key_of(frame), value_of(frame)
            if type(key) in {list, dict, Optional, float, type(None)}:
                raise CelError("unsupported key type")
            if key in result:
                raise CelError(f"Failed with repeated key: {key}")
            if mark:
                if not value.present:
                    continue
                value = value.value
            result[key] = value
        return result

    return run


def optional_map(
    operand: Callable[[Frame], Any], slot: int, body: Part, *, flat: bool
) -> Callable[[Frame], Any]:
    """Evaluate ``optMap`` and ``optFlatMap``."""

    def run(frame: Frame) -> Any:
        value = operand(frame)
        if type(value) is not Optional:
            raise no_such_overload()
        if not value.present:
            return value
        frame[slot] = value.value
        result = body.run(frame)
        return result if flat else Optional(result)

    return run


def _otherwise(unwrapped: bool) -> Callable[..., Callable[[Frame], Any]]:
    """Evaluate ``or`` and ``orValue``: the other value only if there is none."""

    def part(
        operand: Callable[[Frame], Any], other: Callable[[Frame], Any]
    ) -> Callable[[Frame], Any]:
        def run(frame: Frame) -> Any:
            value = operand(frame)
            if type(value) is not Optional:
                raise no_such_overload()
            if not value.present:
                return other(frame)
            return value.value if unwrapped else value

        return run

    return part


LAZY = {"or": _otherwise(False), "orValue": _otherwise(True)}
"""Functions that do not always evaluate their arguments."""

# -- functions

_EXPECTED = (ArithmeticError, LookupError, AttributeError, ValueError)


def call(
    function: Callable[..., Any],
    arguments: Sequence[Callable[[Frame], Any]],
    price: Callable[[Frame, list[Any]], None] | None,
) -> Callable[[Frame], Any]:
    """Call a function after its arguments have been paid for."""

    def run(frame: Frame) -> Any:
        values = [argument(frame) for argument in arguments]
        if price is not None:
            price(frame, values)
        try:
            return function(*values)
        except CelError:
            raise
        except (TypeError, AttributeError):
            raise no_such_overload() from None
        except _EXPECTED as error:
            raise CelError(str(error)) from None

    return run
