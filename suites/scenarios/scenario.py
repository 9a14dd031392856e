"""What a scenario is, and the list of all there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from .stage import Stage

    Play = Callable[[Stage], Awaitable[None]]


class Scenario(NamedTuple):
    """One scenario.

    Attributes:
        name: Also that of its namespace.
        play: What a user does, and what they see.
        alone: Others must not play at the same time, because it breaks what all of them share.
        without: Clusters on which it cannot be played, and why; for docs/design/differences.md.
    """

    name: str
    play: Play
    alone: bool
    without: Mapping[str, str]


SCENARIOS: dict[str, Scenario] = {}
"""By name, in the order in which they are defined."""


def playable(*clusters: str) -> list[str]:
    """The names of the scenarios that all of these clusters can play."""
    return [each.name for each in SCENARIOS.values() if not each.without.keys() & set(clusters)]


def scenario(
    *, alone: bool = False, without: Mapping[str, str] | None = None
) -> Callable[[Play], Play]:
    """Register a coroutine as a scenario, under its own name."""

    def register(play: Play) -> Play:
        name = play.__name__.replace("_", "-")
        SCENARIOS[name] = Scenario(name, play, alone, without or {})
        return play

    return register
