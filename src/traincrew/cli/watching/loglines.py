"""Splits logs into lines, in linear time and bounded memory: a program may never end a line."""

from __future__ import annotations

import re

__all__ = ["LEFT_OUT", "LONGEST_LINE", "LogLines", "as_time", "split_stamp"]

LONGEST_LINE = 2**20
"""Bytes of a line that are shown."""
LEFT_OUT = f" … [longer than {LONGEST_LINE // 2**20} MiB: the rest of this line is left out]"

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")


def split_stamp(line: bytes) -> tuple[tuple[str, str] | None, bytes]:
    """Split a log line into its time and text.

    Returns:
        The time in a comparable form (seconds, then nine digits), None if the line has none; and
        the rest.
    """
    match = _STAMP.match(line)
    if match is None:
        return None, line
    seconds, fraction = match[1].decode(), (match[2] or b"").decode().ljust(9, "0")
    return (seconds, fraction), line[match.end() :]


def as_time(stamp: tuple[str, str]) -> str:
    """Return the time of a line, as `split_stamp` has it, in the format of the API."""
    return f"{stamp[0]}.{stamp[1]}Z"


class LogLines:
    """Splits one stream of a log.

    Of a line that is redrawn with carriage returns, states that nobody will see are dropped first.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._skips = False
        """Whether the line was longer than the limit, and has been returned."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that a chunk ends, without their ends, and a long one when it is cut."""
        first, *others = chunk.split(b"\n")
        lines: list[bytes] = []
        self._add(first, lines)
        for line in others:
            if not self._skips:
                lines.append(b"".join(self._parts))
            self._parts, self._size, self._skips = [], 0, False
            self._add(line, lines)
        return lines

    def rest(self) -> bytes:
        """Return the last line if it has no end; empty if there is none."""
        return b"" if self._skips else b"".join(self._parts)

    def _add(self, part: bytes, lines: list[bytes]) -> None:
        """Continue the line; return it already if it is too long now."""
        if self._skips or not part:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size <= LONGEST_LINE:
            return
        line = b"".join(self._parts)
        _, text = split_stamp(line)
        stamp = line[: len(line) - len(text)]
        last = text[text.rfind(b"\r", 0, len(text) - 1) + 1 :]
        # A longer remainder would be looked at again too soon, and the time would be quadratic.
        if len(stamp) + len(last) <= LONGEST_LINE // 2:
            self._parts = [stamp + last]
            self._size = len(stamp) + len(last)
            return
        lines.append(line[:LONGEST_LINE] + LEFT_OUT.encode())
        self._parts, self._size, self._skips = [], 0, True
