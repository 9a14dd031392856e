"""Metrics over time, bounded: what the curves of the page are drawn from.

Pure. A series that has too many points keeps every second one, and from then on records half as
often, so that a long training stays whole.
"""

from __future__ import annotations

from msgspec import Struct

MOST_POINTS = 2000
"""Points of one series."""
MOST_SERIES = 200
MOST_MARKS = 500


class Point(Struct, frozen=True, array_like=True):
    """A value: when, in seconds since 1970; which series; what."""

    at: float
    series: int
    value: float


class Mark(Struct, frozen=True, array_like=True):
    """Something that happened, to be marked in every curve."""

    at: float
    text: str


class Recorder:
    """The series and marks of one job.

    Attributes:
        names: Names of the series, by number: metric and pod.
        points: All points that are kept, as they were recorded.
        marks: All marks that are kept.
        turned_away: Whether there were more series than can be kept.
    """

    def __init__(self) -> None:
        self.names: list[tuple[str, str]] = []
        self.points: list[Point] = []
        self.marks: list[Mark] = []
        self.turned_away = False
        self._numbers: dict[tuple[str, str], int] = {}
        self._counts: list[int] = []
        self._strides: list[int] = []
        self._skipped: list[int] = []
        self.thinned = 0
        """How often points were removed: numbers of points before that are not valid any more."""

    def add(self, metric: str, source: str, at: float, value: float) -> None:
        """Record a value of a metric of a pod."""
        key = (metric, source)
        number = self._numbers.get(key)
        if number is None:
            if len(self.names) >= MOST_SERIES:
                self.turned_away = True
                return
            number = self._numbers[key] = len(self.names)
            self.names.append(key)
            self._counts.append(0)
            self._strides.append(1)
            self._skipped.append(0)
        self._skipped[number] += 1
        if self._skipped[number] < self._strides[number]:
            return
        self._skipped[number] = 0
        self.points.append(Point(round(at, 3), number, value))
        self._counts[number] += 1
        if self._counts[number] > MOST_POINTS:
            self._thin(number)

    def mark(self, at: float, text: str) -> None:
        """Record that something happened."""
        self.marks.append(Mark(round(at, 3), text))
        del self.marks[:-MOST_MARKS]

    def _thin(self, number: int) -> None:
        kept, place = [], 0
        for point in self.points:
            if point.series == number:
                place += 1
                if place % 2 == 0:
                    continue
            kept.append(point)
        self.points = kept
        self._counts[number] = sum(point.series == number for point in kept)
        self._strides[number] *= 2
        self.thinned += 1
