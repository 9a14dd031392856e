"""Random choices that a seed makes repeatable."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


class RandomChoice:
    """A source of random choices."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)

    def maybe(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def one(self, values: Sequence[T]) -> T:
        return self.random.choice(values)

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def some(self, values: Sequence[T], most: int | None = None, least: int = 0) -> list[T]:
        """Return distinct values in random order."""
        top = len(values) if most is None else min(most, len(values))
        return self.random.sample(values, self.random.randint(min(least, top), top))

    def part(self, chance: float, **makers: Callable[[], Any]) -> dict[str, Any]:
        """Return an object with some of the fields."""
        return {
            name.rstrip("_"): make()
            for name, make in makers.items()
            if self.random.random() < chance
        }

    def weighted(self, choices: dict[T, float]) -> T:
        return self.random.choices(list(choices), list(choices.values()))[0]
