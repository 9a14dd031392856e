"""Compiled expressions, and the errors of those that cannot be compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .operators import CelError, CostExceededError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .parts import Part

__all__ = ["PER_CALL_LIMIT", "CompilationError", "Program", "shown"]

PER_CALL_LIMIT = 1_000_000
"""What one evaluation may cost; upstream's limit (``PerCallLimit``)."""


class CompilationError(ValueError):
    """An expression has type errors; the message has one line for each, as cel-go prints it."""


class Program:
    """A compiled expression.

    Attributes:
        kind: type of its value.
        cost: what one evaluation may cost at most.
        names: the variables that it uses.
    """

    __slots__ = ("_run", "_slots", "_variables", "_weight", "cost", "kind", "names")

    def __init__(
        self, part: Part, names: Iterable[str], variables: Iterable[str], slots: int
    ) -> None:
        self.kind = part.kind
        self.cost = part.cost
        self.names = frozenset(names)
        self._run = part.run
        self._weight = part.weight
        self._variables = tuple(variables)
        self._slots = slots

    def run(self, values: dict[str, Any], budget: float = PER_CALL_LIMIT) -> tuple[Any, float]:
        """Evaluate it.

        Args:
            values: of the variables.
            budget: what the evaluation may cost.

        Returns:
            The value, and what it has cost.

        Raises:
            CelError: it cannot be evaluated on these values.
            CostExceededError: it costs more.
        """
        frame: list[Any] = [
            budget - self._weight,
            *map(values.get, self._variables),
            *[None] * self._slots,
        ]
        if frame[0] < 0:
            raise CostExceededError
        try:
            value = self._run(frame)
        except CelError as error:
            error.cost = budget - frame[0]
            raise
        except RecursionError:
            raise CelError("the value is nested too deeply") from None
        return value, budget - frame[0]


def shown(source: str, at: int, message: str) -> str:
    """Return an error as cel-go prints it: with its place and the line."""
    line = source.count("\n", 0, at)
    start = source.rfind("\n", 0, at) + 1
    column = at - start
    text = source.split("\n")[line].replace("\t", " ")
    if len(text) > 1_000:
        return f"ERROR: <input>:{line + 1}:{column + 1}: {message}"
    return f"ERROR: <input>:{line + 1}:{column + 1}: {message}\n | {text}\n | {'.' * column}^"
