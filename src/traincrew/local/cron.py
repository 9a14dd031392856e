"""Schedules of CronJobs: five fields, or a descriptor such as ``@hourly``. Pure.

Syntax, semantics and messages are those of the parser that Kubernetes uses
(``github.com/robfig/cron/v3``, ``ParseStandard``).
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple, Protocol

from msgspec import Struct

__all__ = ["Schedule", "parse", "zone"]


class Schedule(Protocol):
    """When something is due."""

    def after(self, moment: float) -> float | None:
        """Return the first time after a moment; both in seconds since the epoch.

        None if there is none within five years, as of February 30.
        """


def parse(text: str) -> Schedule:
    """Return a schedule; its fields are in UTC, or in the zone of a prefix ``TZ=Area/City``.

    Raises:
        ValueError: It is none; the message is upstream's.
    """
    if not text:
        raise ValueError("empty spec string")
    where: tzinfo = UTC
    if text.startswith(("TZ=", "CRON_TZ=")):
        head, blank, rest = text.partition(" ")
        if not blank:
            fault = "runtime error: slice bounds out of range [:-1]"
            raise ValueError(f"invalid schedule format: {fault}")
        name = head.partition("=")[2]
        try:
            where = zone(name)
        except ValueError as error:
            raise ValueError(f"provided bad location {name}: {error}") from error
        text = rest.strip()
    if text.startswith("@"):
        if text.startswith(_EVERY):
            return _Every(_whole_seconds(text.removeprefix(_EVERY)))
        known = _DESCRIPTORS.get(text)
        if known is None:
            raise ValueError(f"unrecognized descriptor: {text}")
        text = known
    words = text.split()
    if len(words) != len(_BOUNDS):
        shown = " ".join(words)
        raise ValueError(f"expected exactly 5 fields, found {len(words)}: [{shown}]")
    return _Fields(where, *(_values(*pair) for pair in zip(words, _BOUNDS, strict=True)))


def zone(name: str) -> tzinfo:
    """Return a time zone; all but UTC, the empty name, need the database of this machine.

    Raises:
        ValueError: It is unknown; the message is Go's.
    """
    if name in {"", "UTC"}:
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(f"unknown time zone {name}") from error


_EVERY = "@every "
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class _Bounds(NamedTuple):
    """The values of a field, and names of some."""

    low: int
    high: int
    names: tuple[str, ...] = ()

    def number(self, word: str) -> int:
        """Return a number or the number of a name.

        Raises:
            ValueError: It is neither.
        """
        if word.lower() in self.names:
            return self.low + self.names.index(word.lower())
        return _number(word)


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BOUNDS = (
    _Bounds(0, 59),
    _Bounds(0, 23),
    _Bounds(1, 31),
    _Bounds(1, 12, _MONTHS),
    _Bounds(0, 6, _WEEKDAYS),
)


class _Values(NamedTuple):
    """The values of a field; `free` is whether it is ``*``, which makes a difference for days."""

    numbers: frozenset[int]
    free: bool


def _values(text: str, bounds: _Bounds) -> _Values:
    numbers: set[int] = set()
    free = False
    for part in filter(None, text.split(",")):
        span, every = _range(part, bounds)
        numbers.update(span)
        free |= every
    return _Values(frozenset(numbers), free)


def _range(text: str, bounds: _Bounds) -> tuple[range, bool]:
    """Return the numbers of ``*``, ``?``, ``N``, ``N-M``, each perhaps with ``/STEP``."""
    whole, *steps = text.split("/")
    first, *others = whole.split("-")
    free = first in {"*", "?"}
    if free:
        start, end = bounds.low, bounds.high
    else:
        start = end = bounds.number(first)
        if len(others) > 1:
            raise ValueError(f"too many hyphens: {text}")
        if others:
            end = bounds.number(others[0])
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {text}")
    step = 1
    if steps:
        step = _number(steps[0])
        if not others:
            end = bounds.high
        free &= step <= 1
    if start < bounds.low:
        raise ValueError(f"beginning of range ({start}) below minimum ({bounds.low}): {text}")
    if end > bounds.high:
        raise ValueError(f"end of range ({end}) above maximum ({bounds.high}): {text}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {text}")
    return range(start, end + 1, step), free


def _number(word: str) -> int:
    fault = ""
    if not re.fullmatch(r"[+-]?[0-9]+", word):
        fault = "invalid syntax"
    elif len(word) > 18:
        fault = "value out of range"
    if fault:
        raise ValueError(
            f'failed to parse int from {word}: strconv.Atoi: parsing "{word}": {fault}'
        )
    if int(word) < 0:
        raise ValueError(f"negative number ({int(word)}) not allowed: {word}")
    return int(word)


class _Fields(Struct, frozen=True):
    """A schedule of five fields.

    Where clocks are put forward, the times that they skip are skipped; where they are put back, the
    times that they repeat are due twice. Both as upstream.
    """

    zone: tzinfo
    minutes: _Values
    hours: _Values
    days: _Values
    months: _Values
    weekdays: _Values

    def after(self, moment: float) -> float | None:
        if not (self.minutes.numbers and self.hours.numbers and self.months.numbers):
            return None  # as of a lone comma; not found out hour by hour
        at = (math.floor(moment) // 60 + 1) * 60
        last = min(datetime.fromtimestamp(at, self.zone).year + 5, 9998)
        while True:
            local = datetime.fromtimestamp(at, self.zone)
            if local.year > last:
                return None
            if local.month not in self.months.numbers:
                year, month = divmod(local.year * 12 + local.month, 12)
                at = self._midnight(year, month + 1, 1)
            elif not self._is_day(local):
                day = local.date() + timedelta(days=1)
                at = self._midnight(day.year, day.month, day.day)
            elif local.hour not in self.hours.numbers:
                at += 3600 - local.minute * 60
            elif local.minute not in self.minutes.numbers:
                at += 60
            else:
                return float(at)

    def _midnight(self, year: int, month: int, day: int) -> int:
        return int(datetime(year, month, day, tzinfo=self.zone).timestamp())

    def _is_day(self, local: datetime) -> bool:
        """Return whether the day is due: if both fields restrict days, one is enough."""
        of_month = local.day in self.days.numbers
        of_week = (local.weekday() + 1) % 7 in self.weekdays.numbers
        if self.days.free or self.weekdays.free:
            return of_month and of_week
        return of_month or of_week


class _Every(Struct, frozen=True):
    """A schedule of fixed distances, in whole seconds."""

    seconds: int

    def after(self, moment: float) -> float | None:
        return float(math.floor(moment) + self.seconds)


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_MOST_SECONDS = 2**63 / 1e9


def _whole_seconds(text: str) -> int:
    """Return a duration of Go, such as ``1h30m``, in whole seconds; one at least.

    Raises:
        ValueError: It is none.
    """
    rest, total, fault = text.lstrip("+-") if text[:1] in "+-" else text, 0.0, ""
    if not rest or len(text) - len(rest) > 1:
        fault = f'time: invalid duration "{text}"'
    while rest and rest != "0" and not fault:
        found = re.match(r"([0-9]*\.?[0-9]*)([^0-9.]*)", rest)
        number, unit = found.groups() if found else ("", "")
        if not number.strip("."):
            fault = f'time: invalid duration "{text}"'
        elif not unit:
            fault = f'time: missing unit in duration "{text}"'
        elif unit not in _UNITS:
            fault = f'time: unknown unit "{unit}" in duration "{text}"'
        else:
            total += float(number) * _UNITS[unit]
            rest = rest[len(number) + len(unit) :]
        if total >= _MOST_SECONDS:
            fault = f'time: invalid duration "{text}"'
    if fault:
        raise ValueError(f"failed to parse duration {_EVERY}{text}: {fault}")
    return 1 if text.startswith("-") else max(1, math.floor(total))
