"""Back-off before a failed pod of a node is replaced: 1 s, doubling, at most 15 min. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST = 1.0
"""Seconds after the first failure."""
LONGEST = 900.0
"""Maximum seconds. After twice as long without a failure, the next one counts as the first."""


class Failure(Struct, frozen=True):
    """Seconds to wait since a moment (seconds since the epoch)."""

    delay: float
    since: float


class Backoff(Struct, frozen=True):
    """The failures of one generation of a DaemonSet, by the name of the node."""

    generation: int = 0
    failures: Mapping[str, Failure] = field(default_factory=dict)

    def until(self, node: str, now: float) -> float | None:
        """Return when the failed pod of a node may be replaced; None if it may be now."""
        known = self._known(node, now)
        if known is None or now >= known.since + known.delay:
            return None
        return known.since + known.delay

    def after_failure(self, node: str, now: float) -> Backoff:
        """Return the state after a failed pod was replaced."""
        known = self._known(node, now)
        delay = FIRST if known is None else min(2 * known.delay, LONGEST)
        return Backoff(self.generation, {**self.failures, node: Failure(delay, now)})

    def _known(self, node: str, now: float) -> Failure | None:
        known = self.failures.get(node)
        return None if known is None or now - known.since > 2 * LONGEST else known
