"""Reads progress and metrics from the lines that training programs print.

For programs that report nothing by themselves. What is understood:

- JSON objects, and the dictionaries that `transformers` prints: every finite number is a metric;
- progress bars of tqdm: ``45%|####  | 9/20 [00:05<00:06, 1.8it/s, loss=0.41]``;
- ``epoch 3/20``, ``Epoch [3/20]``, ``step 100 of 1000``: how far the program is;
- ``name=0.41``, and ``loss 0.41`` or ``validation accuracy: 0.98`` for usual names;
- tables as Chainer's `PrintReport` prints them: a line of names, then lines of numbers.

Pure and bounded: lines come from programs that nobody has to trust. Only what a person reads on
this machine is derived from it, never the status of a job.
"""

from __future__ import annotations

import json
import math
import re
from typing import NamedTuple

LONGEST_LINE = 4096
"""Characters; a longer line is not read."""
MOST_METRICS = 32
"""Metrics taken from one line."""
LONGEST_NAME = 64

_NUMBER = r"[-+]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][-+]?\d{1,3})?"
_ONE_NUMBER = re.compile(_NUMBER)
STEPS = (
    "step", "steps", "iteration", "iterations", "iter", "total_steps", "epoch", "epochs",
)  # fmt: skip
"""What programs count their steps by, the finest first."""
COUNTERS = frozenset((*STEPS, "batch"))
"""Names of metrics that count, and do not measure the model; each epoch counts batches anew."""
# `epoch 3/20`, `Epoch [3/20]`, `step: 100 of 1000`
_COUNT = re.compile(
    r"\b(epoch|step|iteration|iter)s?\b[ :=]{0,4}\[?(\d{1,12})\]? ?(?:/|of) ?\[?(\d{1,12})\]?",
    re.IGNORECASE,
)
_COUNTED = {"epoch": "epoch", "step": "step", "iteration": "iteration", "iter": "iteration"}
_BAR = re.compile(
    r"(\d{1,3})%\|[^|]{0,200}\| ?(\d{1,12})/(\d{1,12}) "
    r"\[[\d:]{4,12}<([\d:]{4,12}|\?), {0,3}([^\]]{0,400})\]"
)
# `1.8it/s`, `2.5s/it`
_RATE = re.compile(rf" *({_NUMBER}) ?([A-Za-z_]{{1,20}}/s|s/[A-Za-z_]{{1,20}})(?![\w/])")
# No space before the number where the name ends in `:`, as in addresses and times.
_ASSIGNED = re.compile(rf"(?<![\w./-])([A-Za-z_][\w./-]{{0,63}}) ?= ?({_NUMBER})(?![\w.:/])")
_QUOTED = re.compile(rf"['\"]([A-Za-z_][\w./ -]{{0,63}})['\"]: ?['\"]?({_NUMBER})['\"]?(?=[,}} ])")
_USUAL = (
    r"loss|accuracy|acc|error|err|perplexity|ppl|lr|learning rate|throughput|reward|score|f1|auc"
    r"|mse|mae|rmse|bleu|epoch|step|iteration|samples/s|images/s|tokens/s"
)
_WHICH = r"train|training|val|valid|validation|test|eval|avg|average|mean|running|total|top-?[15]"
_SPOKEN = re.compile(
    rf"(?<![\w./=-])((?:(?:{_WHICH})[ _/])?(?:{_USUAL}))"
    rf"(?: ?: ?| is | {{1,8}})({_NUMBER})(?![\w:/]| of )",
    re.IGNORECASE,
)


class Reading(NamedTuple):
    """Metrics and progress in one line.

    Attributes:
        metrics: Values by name, in the order of the line; all finite.
        done: Fraction of the training that is done, between 0 and 1; None if not given.
        remaining: Seconds that are left; None if not given.
        counted: What the program counts, and how many it has done: ``("step", 100)``; None if not
            given with their total.
    """

    metrics: dict[str, float]
    done: float | None = None
    remaining: float | None = None
    counted: tuple[str, float] | None = None


def merged(before: Reading | None, reading: Reading) -> Reading:
    """Merge two readings; values of the second one replace those of the first."""
    if before is None:
        return reading
    if reading.done is None:
        reading = reading._replace(done=before.done)
    return reading._replace(metrics=_bounded({**before.metrics, **reading.metrics}))


class MetricReader:
    """Reads the lines of one container, in their order."""

    def __init__(self) -> None:
        self._columns: list[str] = []

    def read(self, line: str) -> Reading | None:
        """Return the reading of a line; None if it has no metrics or progress."""
        if len(line) > LONGEST_LINE:
            return None
        text = line.strip()
        if text.startswith("{") and text.endswith("}"):
            return _dictionary(text)
        if (table := self._table(text)) is not None:
            return table
        if bar := _BAR.search(text):
            return _bar(bar)
        match = _COUNT.search(text)
        done = _fraction(int(match[2]), int(match[3])) if match else None
        found = _pairs(_SPOKEN, text) | _pairs(_ASSIGNED, text)
        if done is None and not found.keys() - COUNTERS:
            return None
        counted = (_COUNTED[match[1].lower()], float(match[2])) if match else None
        return Reading(_bounded(found), done, counted=counted)

    def _table(self, text: str) -> Reading | None:
        words = text.split()
        if len(words) > 1 and words[0] in COUNTERS and not any(map(_is_number, words)):
            self._columns = words[:MOST_METRICS]
            return None
        if len(words) != len(self._columns) or not words or not all(map(_is_number, words)):
            return None
        values = [float(word) for word in words]
        return Reading(_bounded(dict(zip(self._columns, values, strict=True))))


def _is_number(word: str) -> bool:
    return _ONE_NUMBER.fullmatch(word) is not None


def _dictionary(text: str) -> Reading | None:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        found = _pairs(_QUOTED, text)
    else:
        found = {
            str(name): float(value)
            for name, value in content.items()
            if isinstance(value, int | float)
            and not isinstance(value, bool)
            and abs(value) < 1e300  # also integers that no float can hold
        }
    metrics = _bounded(found)
    return Reading(metrics, _done_of(found)) if metrics else None


def _done_of(found: dict[str, float]) -> float | None:
    """Return the fraction of a dictionary that has a count and its total."""
    for count, total in (("step", "total_steps"), ("epoch", "epochs"), ("epoch", "num_epochs")):
        if count in found and found.get(total, 0) > 0:
            return _fraction(found[count], found[total])
    return None


def _bar(bar: re.Match[str]) -> Reading:
    count, total = int(bar[2]), int(bar[3])
    left = None if bar[4] == "?" else _seconds(bar[4])
    found = _pairs(_ASSIGNED, bar[5])
    if (rate := _RATE.match(bar[5])) is not None:
        found |= _per_second(float(rate[1]), rate[2])
    return Reading(_bounded(found), _fraction(count, total), left)


def _per_second(value: float, unit: str) -> dict[str, float]:
    """Return the throughput of a progress bar, which writes ``2.5s/it`` if it is slow."""
    if not unit.startswith("s/"):
        return {unit: value}
    return {f"{unit.removeprefix('s/')}/s": 1 / value} if value > 0 else {}


def _seconds(text: str) -> float:
    """Return the seconds of ``1:02:03`` or ``02:03``."""
    seconds = 0.0
    for part in text.split(":"):
        seconds = seconds * 60 + int(part or 0)
    return seconds


def _fraction(count: float, total: float) -> float | None:
    return min(max(count / total, 0.0), 1.0) if total > 0 else None


def _pairs(pattern: re.Pattern[str], text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for match in pattern.finditer(text):
        name = match[1].lower() if pattern is _SPOKEN else match[1]
        found.setdefault(name, float(match[2]))
    return found


def _bounded(found: dict[str, float]) -> dict[str, float]:
    """Return the metrics that can be shown: finite values, few and short printable names."""
    kept = {
        name: value
        for name, value in found.items()
        if math.isfinite(value) and 0 < len(name) <= LONGEST_NAME and name.isprintable()
    }
    return dict(list(kept.items())[:MOST_METRICS])
