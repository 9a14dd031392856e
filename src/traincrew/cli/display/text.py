"""Formats durations, sizes and log lines for display."""

from __future__ import annotations

import re
from datetime import datetime

from traincrew.plan.shared.text import printable

_CONTROL_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movements, erasing
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # device control and other strings
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
    r"|\x1b",
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
# Control characters, and those that change the direction of the text after them.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")


def duration(seconds: float) -> str:
    """Format a duration in seconds."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def byte_size(count: int) -> str:
    """Format a number of bytes."""
    if count < 1000:
        return f"{count} B"
    units = ("kB", "MB", "GB", "TB")
    power = min(max(len(str(round(count / 1000))) - 1, 0) // 3, len(units) - 1)
    size = count / 1000 ** (power + 1)
    return f"{size:.1f} {units[power]}" if size < 99.5 else f"{size:.0f} {units[power]}"


def plain(text: str) -> str:
    """Replace unprintable characters, which could change the state of the terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "?" for each in text)


def one_line(text: str) -> str:
    """Return a text as one printable line."""
    return " ".join(printable(text).split())


def clock(seconds: float) -> str:
    """Format elapsed seconds as ``0:07`` or ``1:02:03``."""
    whole = int(max(0.0, seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def parse_duration(value: str) -> float:
    """Parse ``90``, ``90s``, ``5m`` or ``1h30m`` as seconds.

    Raises:
        ValueError: The text is not a duration, or is zero.
    """
    match = _DURATION.fullmatch(value.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f"{value!r} is not a duration; write for example 90s, 5m or 1h30m")
    hours, minutes, seconds = match.groups()
    total = int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0)
    if total <= 0:
        raise ValueError("a duration must be longer than zero")
    return total


def moment(timestamp: str | None) -> datetime | None:
    """Parse a Kubernetes timestamp; None if it is missing or malformed."""
    if not timestamp:
        return None
    try:
        return datetime.fromisoformat(timestamp)
    except ValueError:
        return None


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Return the seconds between two Kubernetes timestamps."""
    first, last = moment(start), moment(end)
    return None if first is None or last is None else (last - first).total_seconds()


def seconds_since(timestamp: str | None, now: datetime) -> float:
    """Return the seconds since a Kubernetes timestamp; 0 if it is missing, or in the future."""
    then = moment(timestamp)
    return 0.0 if then is None else max(0.0, (now - then).total_seconds())


def clean(line: str, *, colour: bool) -> str | None:
    """Make one line of a program's output safe to display.

    Of a line that is redrawn with carriage returns, only the last state is shown. Cursor movements
    and other control sequences would garble the lines of other pods, and are dropped. Colours are
    kept if ``colour`` is set, and reset at the end of the line.

    Returns:
        The line, or None if it contained nothing but control characters.
    """
    if line.isprintable():
        return line
    segments = [segment for segment in line.rstrip("\r").split("\r") if segment]
    shown = segments[-1] if segments else ""
    coloured = False

    def replace(match: re.Match[str]) -> str:
        nonlocal coloured
        if colour and _COLOUR.fullmatch(match[0]):
            coloured = True
            return match[0]
        return ""

    shown = _CONTROL.sub("", _CONTROL_SEQUENCE.sub(replace, shown))
    if not shown and line.strip("\r"):
        return None
    return shown + "\x1b[0m" if coloured else shown


def uncoloured(line: str) -> str:
    """Return a line without colours: what `clean` has kept for showing is nothing to be read."""
    return _COLOUR.sub("", line) if "\x1b" in line else line
