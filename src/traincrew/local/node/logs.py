"""Reading the logs of containers, as `kubectl logs` wants them."""

from __future__ import annotations

import asyncio
import os
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from traincrew.local.apiserver.streams import LogOptions

__all__ = ["read_log", "tail_of"]

_BLOCK = 262144
_POLL_SECONDS = 0.05
_FULL_LINE = re.compile(rb"(?m)^\S+ std(?:out|err) F ")


async def read_log(
    path: Path, options: LogOptions, ended: Callable[[], bool], now: Callable[[], datetime]
) -> AsyncIterator[bytes]:
    """The lines of a container's log.

    Args:
        path: The current file; `PATH.1` is what was there before it grew too large.
        options: Which lines.
        ended: Whether the container has ended, so that nothing will follow.
        now: For `since_seconds`.
    """
    since = _since(options, now)
    left = options.limit_bytes

    def select(data: bytes) -> bytes:
        """The wanted part of some complete lines, as the client is to see it."""
        nonlocal left
        out = b"".join(_shown(data, since, timestamps=options.timestamps))
        if left is not None:
            out = out[:left]
            left -= len(out)
        return out

    reader = _Reader(path)
    try:
        if options.tail_lines is None:
            for data in reader.before():
                if out := select(data):
                    yield out
        else:
            reader.seek_tail(options.tail_lines)
        while left is None or left > 0:
            # Asked first: what is written before the end is then certainly read.
            over = not options.follow or ended()
            data = reader.read()
            if data:
                if out := select(data):
                    yield out
            elif over:
                return
            else:
                await asyncio.sleep(_POLL_SECONDS)
    finally:
        reader.close()


def tail_of(path: Path, lines: int, limit: int) -> str:
    """The last lines of a log, `limit` bytes at most: a termination message."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _BLOCK))
            data = file.read()
    except OSError:
        return ""
    shown = b"".join(_shown(data, "", timestamps=False))
    *whole, rest = shown.split(b"\n")
    every = [*(line + b"\n" for line in whole), *([rest] if rest else [])]
    kept = b"".join(every[-lines:])[-limit:]
    return kept.decode("utf-8", "replace")


def _since(options: LogOptions, now: Callable[[], datetime]) -> str:
    """The earliest time wanted, comparable to those in the file."""
    if options.since_seconds is not None:
        start = now().astimezone(UTC) - timedelta(seconds=options.since_seconds)
    elif options.since_time:
        start = datetime.fromisoformat(options.since_time).astimezone(UTC)
    else:
        return ""
    return start.strftime("%Y-%m-%dT%H:%M:%S.%f")


def _shown(data: bytes, since: str, *, timestamps: bool) -> Iterator[bytes]:
    """Lines of the file, as the program wrote them."""
    continued = False
    for line in _split(data):
        time, _, rest = line.partition(b" ")
        tag, text = rest[7:8], rest[9:]
        if not text:
            continue  # cut off by the end of a file
        if since and time.decode("ascii", "replace") < since:
            continued = tag == b"P"
            continue
        if timestamps and not continued:
            yield time + b" "
        continued = tag == b"P"
        yield text[:-1] if continued else text


def _split(data: bytes) -> Iterator[bytes]:
    """Lines that end with a newline and nothing else: programs draw with carriage returns."""
    for line in data.split(b"\n")[:-1]:
        yield line + b"\n"


class _Reader:
    """Complete lines of a file that grows, and may be replaced by a new one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb")
        self._rest = b""

    def close(self) -> None:
        self._file.close()

    def before(self) -> Iterator[bytes]:
        """What the file before this one holds."""
        try:
            with self._path.with_name(self._path.name + ".1").open("rb") as file:
                if os.path.sameopenfile(file.fileno(), self._file.fileno()):
                    return
                rest = b""
                while block := file.read(_BLOCK):
                    lines, newline, rest = (rest + block).rpartition(b"\n")
                    yield lines + newline
        except FileNotFoundError:
            return

    def read(self) -> bytes:
        """What has been written since; empty if nothing."""
        block = self._file.read(_BLOCK)
        if not block:
            try:
                replaced = not os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
            except FileNotFoundError:
                return b""
            if replaced:
                # The old file is complete: what was written to it last has just been read.
                block = self._file.read(_BLOCK)
                if not block:
                    self._file.close()
                    self._file = self._path.open("rb")
                    self._rest = b""
                    block = self._file.read(_BLOCK)
        lines, newline, self._rest = (self._rest + block).rpartition(b"\n")
        return lines + newline

    def seek_tail(self, lines: int) -> None:
        """Go to where the last lines begin."""
        position = self._file.seek(0, os.SEEK_END)
        found = b""
        while position > 0 and _full_lines(found) <= lines:
            step = min(_BLOCK, position)
            position -= step
            self._file.seek(position)
            found = self._file.read(step) + found
        start = len(found)
        if lines <= 0:
            self._file.seek(0, os.SEEK_END)
            return
        remaining = lines
        # Backwards over full lines; the pieces of a long one belong to the full line that ends it.
        # At the very end there may be a piece nothing follows: a line without its newline.
        end = last = found.rfind(b"\n")
        while end >= 0:
            before = found.rfind(b"\n", 0, end)
            if end == last or _tag(found[before + 1 : end]) != b"P":
                if remaining == 0:
                    break
                remaining -= 1
            start, end = before + 1, before
        self._file.seek(position + start)


def _tag(line: bytes) -> bytes:
    return line.partition(b" ")[2][7:8]


def _full_lines(data: bytes) -> int:
    return len(_FULL_LINE.findall(data))
