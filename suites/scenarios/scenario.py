"""What a scenario is, and the list of all there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .stage import Stage

    Play = Callable[[Stage], Awaitable[None]]


class Scenario(NamedTuple):
    """One scenario.

    Attributes:
        name: Also that of its namespace.
        play: What a user does, and what they see.
        alone: Others must not play at the same time, because it breaks what all of them share.
    """

    name: str
    play: Play
    alone: bool


SCENARIOS: dict[str, Scenario] = {}
"""By name, in the order in which they are defined."""


def scenario(*, alone: bool = False) -> Callable[[Play], Play]:
    """Register a coroutine as a scenario, under its own name."""

    def register(play: Play) -> Play:
        name = play.__name__.replace("_", "-")
        SCENARIOS[name] = Scenario(name, play, alone)
        return play

    return register
