"""The definition of a scenario, and the registry of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from .context import ScenarioContext

    Steps = Callable[[ScenarioContext], Awaitable[None]]


class Scenario(NamedTuple):
    """One scenario.

    Attributes:
        name: Its name, also that of its namespace.
        run: The user's actions and observations.
        alone: It must not run concurrently with others, because it breaks what all of them share.
        without: Clusters on which it cannot run, and why; for docs/design/differences.md.
    """

    name: str
    run: Steps
    alone: bool
    without: Mapping[str, str]


SCENARIOS: dict[str, Scenario] = {}
"""By name, in the order in which they are defined."""


def runnable(*clusters: str) -> list[str]:
    """Return the names of the scenarios that all of these clusters can run."""
    return [each.name for each in SCENARIOS.values() if not each.without.keys() & set(clusters)]


def scenario(
    *, alone: bool = False, without: Mapping[str, str] | None = None
) -> Callable[[Steps], Steps]:
    """Register a coroutine as a scenario under its own name."""

    def register(run: Steps) -> Steps:
        name = run.__name__.replace("_", "-")
        SCENARIOS[name] = Scenario(name, run, alone, without or {})
        return run

    return register
