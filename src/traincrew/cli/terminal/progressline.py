"""How far a job is, in a few words: percentage, time left, metrics, throughput.

What the program has reported goes before what is read from the lines that it prints: percentage
and time left come from one of the two, and so do the metrics. Pure.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from traincrew.cli.display.metrics import COUNTERS
from traincrew.cli.display.rows import cut
from traincrew.cli.display.text import clock, one_line

if TYPE_CHECKING:
    from traincrew.cli.display.metrics import Reading
    from traincrew.cli.display.quiet import Silence
    from traincrew.cli.terminal.records import JobRecord

__all__ = ["ProgressLine", "progress_line"]

MOST_METRICS = 4
"""Metrics in a row, the throughput included."""
LONGEST_NAME = 24
LONGEST_VALUE = 12
# `it/s`, `samples/sec`, `train_samples_per_second`
_THROUGHPUT = re.compile(
    r"(?:(?:train|eval)[_/])?([^/]+?)(?:/s(?:ec)?|_per_sec(?:ond)?)", re.IGNORECASE
)


class ProgressLine(NamedTuple):
    """How far a job is.

    Attributes:
        done: Fraction of the training that is done; None if nothing says so.
        left: Seconds that are left, if known.
        estimated: Whether `left` is derived from the time that has passed.
        metrics: Values by name, as they are shown.
        silence: Why no time is estimated, if its programs have written nothing for too long.
    """

    done: float | None
    left: float | None
    estimated: bool
    metrics: dict[str, str]
    silence: Silence | None = None

    def words(self) -> tuple[str, ...]:
        """Return percentage, time left, metrics and throughput, the most important ones first."""
        words = []
        if self.done is not None:
            words.append(f"{math.floor(self.done * 100 + 1e-6)}%")
        if self.silence is not None:
            words.append(self.silence.words())
        elif self.left:
            words.append(f"{'~' if self.estimated else ''}{clock(self.left)} left")
        shown = {
            name: value for name, value in self.metrics.items() if name.lower() not in COUNTERS
        }
        rate = next((found for name in shown if (found := _THROUGHPUT.fullmatch(name))), None)
        throughput = [] if rate is None else [f"{shown.pop(rate[0])} {rate[1]}/s"]
        others = [f"{name} {value}" for name, value in shown.items()]
        # Before the third metric, so that it is not the one that is left out.
        return (*words, *[*others[:2], *throughput, *others[2:]][:MOST_METRICS])


def progress_line(
    job: JobRecord, reading: Reading | None, now: float, silence: Silence | None = None
) -> ProgressLine:
    """Return how far a job is.

    Args:
        job: The job, with its newest report.
        reading: What its program has printed, if that is read.
        now: Seconds since the start of this command.
        silence: For how long its programs have written nothing, if that is too long.
    """
    done: float | None = None
    remaining: float | None = None
    metrics: dict[str, str] = {}
    if reading is not None:
        done, remaining = reading.done, reading.remaining
        metrics = {name: f"{value:.4g}" for name, value in reading.metrics.items()}
    progress = job.reported
    if progress is not None and progress.percentage is not None:
        done = min(max(progress.percentage, 0), 100) / 100
        seconds = progress.estimated_remaining_seconds
        # It was so when the report was seen; clocks of clusters are not compared.
        remaining = None if seconds is None else max(0.0, seconds - (now - job.reported_at))
    if progress is not None and progress.metrics:
        metrics = {
            cut(one_line(one.name), LONGEST_NAME): cut(_value(one.value), LONGEST_VALUE)
            for one in progress.metrics
        }
    estimated = remaining is None and done is not None and 0 < done < 1
    if estimated and done is not None:
        remaining = (now - job.started) * (1 - done) / done
    return ProgressLine(done, remaining, estimated, metrics, silence)


def _value(text: str) -> str:
    """Return a value as it is shown: numbers with four digits, anything else as written."""
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return one_line(text)
