"""Whether a program has written nothing for longer than it usually does. Pure.

The page of a browser has the same rule (``page/static/quiet.js``); both are tested with the cases
of ``suites/page/code/quiet.json``.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from traincrew.cli.display.text import duration, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Output", "Silence", "silence", "silence_of"]

KEPT = 200
"""Times of lines that are kept of a pod."""
PODS = 8
"""Pods that say what is usual: those that wrote last."""
FEWEST = 10
"""Lines that say what is usual."""
SHORTEST = 30.0
"""Seconds that are never too long."""
FACTOR = 10
"""How many times the usual pause is too long."""
LONGER = 2
"""How many times the longest pause is too long."""
AT_ONCE = 0.1
"""Seconds within which lines are written together, as the metrics of one step."""
HISTORY = 2.0
"""Seconds after the first line in which lines may be old: the history of the log."""


class Silence(NamedTuple):
    """A pause that is too long.

    Attributes:
        seconds: Since the last line.
        usual: Seconds from one line to the next, or from one group of lines to the next.
    """

    seconds: float
    usual: float

    def words(self) -> str:
        """Return ``no output for 45 s (usually every 2 s)``."""
        whole = round(self.usual)
        often = "second" if whole < 2 else f"{whole} s" if whole < 60 else duration(whole)
        return f"no output for {duration(self.seconds)} (usually every {often})"


class Output:
    """When a pod has written its newest lines."""

    __slots__ = ("_began", "_read", "_stamps")

    def __init__(self) -> None:
        self._stamps: deque[str] = deque(maxlen=KEPT)
        self._began = self._read = 0.0

    def note(self, stamp: str, now: float) -> None:
        """Record a line.

        Args:
            stamp: Its time, as the API server sends it.
            now: When it was read, in seconds since 1970.
        """
        self._stamps.append(stamp)
        self._read = now
        self._began = self._began or now

    def last(self) -> float:
        """Return when the last line was written, by the clock that `note` is called with; else 0.

        Clocks of nodes may differ: what is read while it is written was written when it was read.
        """
        if not self._stamps or self._read - self._began > HISTORY:
            return self._read
        return min(self._read, _seconds(self._stamps[-1]) or self._read)

    @property
    def newest(self) -> str:
        """The time of the last line, as the API server sent it; empty if there is none."""
        return self._stamps[-1] if self._stamps else ""

    def times(self) -> list[float]:
        """Return the times of its lines, in seconds since 1970 by the clock of its node."""
        return [found for each in self._stamps if (found := _seconds(each)) is not None]


def silence_of(
    outputs: Sequence[Output], now: float, reported: float | None = None
) -> Silence | None:
    """Return the pause of the programs of a job, if it is too long.

    Args:
        outputs: What each of its running pods has written.
        now: In seconds since 1970.
        reported: When a program has last reported its progress, which says as much as output.
    """
    last = max((each.last() for each in outputs), default=0.0)
    if not last:
        return None
    last = max(last, reported or 0.0)
    if now - last <= SHORTEST:
        return None
    some = heapq.nlargest(PODS, outputs, key=Output.last)
    newest = sorted(time for each in some for time in each.times())[-KEPT:]
    return silence(newest, now - last)


def silence(times: Sequence[float], seconds: float) -> Silence | None:
    """Return a pause, if it is too long.

    Args:
        times: Of the newest lines, in seconds, in their order.
        seconds: Since the last line.
    """
    if len(times) < FEWEST:
        return None
    gaps = sorted(after - before for before, after in itertools.pairwise(times))
    pauses = [gap for gap in gaps if gap >= AT_ONCE] or gaps
    usual = pauses[len(pauses) // 2]
    if seconds <= max(SHORTEST, FACTOR * usual, LONGER * pauses[-1]):
        return None
    return Silence(seconds, usual)


def _seconds(stamp: str) -> float | None:
    found = moment(stamp)
    return None if found is None else found.timestamp()
