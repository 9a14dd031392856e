"""Times as the API reads and writes them (``metav1.Time`` and ``metav1.MicroTime``)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

__all__ = ["canonical", "canonical_micro", "fault"]

# The parts of Go's layout, with the pattern each accepts.
_LAYOUT = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d"),
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
    ("05", r"\d\d"),
)
_FRACTION = (".000000", r"\.\d{6}(?!\d)")
_ZONE = ("Z07:00", r"Z|[+-]\d\d:\d\d")
_RANGES = (("01", 1, 12, "month"), ("02", 1, 31, "day"), ("15", 0, 23, "hour"))
_MORE_RANGES = (("04", 0, 59, "minute"), ("05", 0, 59, "second"))


@lru_cache(maxsize=1024)
def canonical(text: str) -> str:
    """Return a time in UTC and whole seconds: ``2027-01-15T08:00:00Z``.

    Raises:
        ValueError: it is no time of RFC 3339.
    """
    if len(text) == 20 and text[-1] == "Z":
        return text
    return _written(text, "seconds")


@lru_cache(maxsize=1024)
def canonical_micro(text: str) -> str:
    """Return a time in UTC with microseconds: ``2027-01-15T08:00:00.000000Z``.

    Raises:
        ValueError: it is no time of RFC 3339.
    """
    return _written(text, "microseconds")


def fault(text: str, *, micro: bool = False) -> str | None:
    """Return Go's error for a time it cannot parse; None when it can.

    Args:
        text: the time.
        micro: whether six fractional digits of the second are required.
    """
    parts = [*_LAYOUT, *((_FRACTION,) if micro else ()), _ZONE]
    layout = "".join(part for part, _ in parts)
    rest = text
    values: dict[str, int] = {}
    for part, form in parts:
        match = re.match(form, rest)
        if match is None:
            return f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{part}"'
        if match[0].isdigit():
            values[part] = int(match[0])
        rest = rest[match.end() :]
        if part == "05" and not micro and (match := re.match(r"[.,]\d+", rest)):
            rest = rest[match.end() :]
    for part, low, high, name in (*_RANGES, *_MORE_RANGES):
        if not low <= values[part] <= high:
            return f'parsing time "{text}": {name} out of range'
    if rest:
        return f'parsing time "{text}": extra text: "{rest}"'
    try:
        datetime(values["2006"], values["01"], values["02"], tzinfo=UTC)
    except ValueError:
        return f'parsing time "{text}": day out of range'
    try:
        _written(text, "seconds")
    except ValueError:
        return f'parsing time "{text}": year out of range'
    return None


def _written(text: str, precision: str) -> str:
    # strftime does not zero-pad years before 1000.
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise ValueError(f"{text} is outside of the calendar in UTC") from None
    return moment.isoformat(timespec=precision) + "Z"
