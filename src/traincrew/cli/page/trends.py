"""The course of a job's main metric in a few numbers: the small curve in a row of the list.

Pure. A row must stay small, because a list of 1,000 jobs is sent at once: the course is at most
`MOST_POINTS` whole numbers, which say how high the curve is between its lowest and highest value.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

from traincrew.cli.display.metrics import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.cli.page.series import Recorder

__all__ = ["MOST_POINTS", "Course", "Trend", "TrendReader", "main_metric"]

MOST_POINTS = 32
"""Points of a small curve."""
HIGHEST = 99
"""How high its highest point is; the lowest one is 0."""
LONGEST_NAME = 40
DONE = "done"
"""The series that says how far a program is: no metric."""


class Trend(Struct, frozen=True):
    """What a row shows of the main metric.

    Attributes:
        metric: Its name.
        value: Its last value.
        heights: The course from the oldest to the newest value, each from 0 to `HIGHEST`.
    """

    metric: str
    value: float
    heights: tuple[int, ...]


def main_metric(names: Iterable[str]) -> str | None:
    """Return the first name that measures the model, and does not count its steps."""
    for name in names:
        if name.lower() not in COUNTERS and name != DONE:
            return name
    return None


class Course:
    """The values of one metric, bounded: of a long course every second value is kept, and again.

    Args:
        metric: Its name.
    """

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self._values: list[float] = []
        self._stride = 1
        self._skipped = 0
        self._last = math.nan

    def add(self, value: float) -> None:
        """Record a finite value."""
        self._last = value
        if self._skipped == 0:
            self._values.append(value)
            if len(self._values) > 2 * MOST_POINTS:
                self._values = self._values[::2]
                self._stride *= 2
        self._skipped = (self._skipped + 1) % self._stride

    def trend(self) -> Trend | None:
        """Return what a row shows; None without a value."""
        if not self._values:
            return None
        every = math.ceil(len(self._values) / (MOST_POINTS - 1))
        values = self._values[::every]
        if self._skipped != 1 % self._stride or (len(self._values) - 1) % every:
            values.append(self._last)
        low, high = min(values), max(values)
        span = high - low
        if not math.isfinite(span):  # of values near the largest number
            span = 0.0
        heights = [round((value - low) / span * HIGHEST) if span else 0 for value in values]
        return Trend(self.metric[:LONGEST_NAME], self._last, tuple(heights))


class TrendReader:
    """Reads the course of the main metric from what a job's feed records.

    Args:
        recorder: Its metrics.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._course: Course | None = None
        self._number = -1
        self._read = 0
        self._thinned = recorder.thinned

    def read(self) -> Trend | None:
        """Return the trend of all that was recorded until now; None without a metric."""
        recorder = self._recorder
        if recorder.thinned != self._thinned:
            self._thinned, self._read, self._course = recorder.thinned, 0, None
        if self._course is None:
            metric = main_metric(name for name, _ in recorder.names)
            if metric is None:
                return None
            self._number = next(
                number for number, (name, _) in enumerate(recorder.names) if name == metric
            )
            self._course, self._read = Course(metric), 0
        for point in recorder.points[self._read :]:
            if point.series == self._number:
                self._course.add(point.value)
        self._read = len(recorder.points)
        return self._course.trend()
