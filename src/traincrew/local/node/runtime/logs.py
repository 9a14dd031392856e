"""Reading of container logs for `kubectl logs`."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from traincrew.local.apiserver.http.node_backend import LogOptions

__all__ = ["read_log", "tail_of"]

_BLOCK = 262144
_POLL_SECONDS = 0.05


async def read_log(
    path: Path, options: LogOptions, ended: Callable[[], bool], now: Callable[[], datetime]
) -> AsyncIterator[bytes]:
    """Yield the selected lines of a container's log.

    Args:
        path: The current file; `PATH.1` is the file before its last rotation.
        options: Select the lines.
        ended: Returns whether the container has ended, so that no lines follow.
        now: Returns the current time, for `since_seconds`.
    """
    since = _since(options, now)
    left = options.limit_bytes

    def select(data: bytes) -> bytes:
        """Return the selected part of some complete lines, formatted for the client."""
        nonlocal left
        out = b"".join(_shown(data, since, timestamps=options.timestamps))
        if left is not None:
            out = out[:left]
            left -= len(out)
        return out

    reader = _Reader(path, grows=options.follow)
    try:
        if options.tail_lines is None:
            for data in reader.before():
                if out := select(data):
                    yield out
        else:
            reader.seek_tail(options.tail_lines)
        while left is None or left > 0:
            # Checked before reading, so that everything written before the end is read.
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
    """Return the last lines of a log, `limit` bytes at most, for a termination message."""
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
    """Return the earliest time to select, comparable to those in the file."""
    if options.since_seconds is not None:
        try:
            start = now().astimezone(UTC) - timedelta(seconds=options.since_seconds)
        except OverflowError:
            return ""  # before the first year
    elif options.since_time:
        start = datetime.fromisoformat(options.since_time).astimezone(UTC)
    else:
        return ""
    # strftime does not zero-pad years before 1000.
    return start.replace(tzinfo=None).isoformat(timespec="microseconds")


def _shown(data: bytes, since: str, *, timestamps: bool) -> Iterator[bytes]:
    """Yield lines of the file as the program wrote them."""
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
    """Yield lines, split at newlines only: carriage returns belong to the text."""
    for line in data.split(b"\n")[:-1]:
        yield line + b"\n"


class _Reader:
    """Complete lines of a file that grows and may be rotated.

    Args:
        path: The file.
        grows: Whether to read lines that are written from now on, too.
    """

    def __init__(self, path: Path, *, grows: bool) -> None:
        self._path = path
        self._file = path.open("rb")
        self._end = None if grows else os.fstat(self._file.fileno()).st_size
        self._rest = b""

    def close(self) -> None:
        self._file.close()

    def before(self) -> Iterator[bytes]:
        """Yield the content of the file before the last rotation."""
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
        """Return the complete lines written since the last call; empty if there are none."""
        left = _BLOCK if self._end is None else self._end - self._file.tell()
        block = self._file.read(max(0, min(_BLOCK, left)))
        if not block and self._end is None:
            try:
                replaced = not os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
            except FileNotFoundError:
                return b""
            if replaced:
                # The old file no longer grows: its last lines are read here.
                block = self._file.read(_BLOCK)
                if not block:
                    self._file.close()
                    self._file = self._path.open("rb")
                    self._rest = b""
                    block = self._file.read(_BLOCK)
        lines, newline, self._rest = (self._rest + block).rpartition(b"\n")
        return lines + newline

    def seek_tail(self, lines: int) -> None:
        """Seek to the beginning of the last lines.

        As for a kubelet, each part of a long line counts as a line.
        """
        position = self._file.seek(0, os.SEEK_END) if self._end is None else self._end
        found = b""
        while position > 0 and found.count(b"\n") <= lines:
            step = min(_BLOCK, position)
            position -= step
            self._file.seek(position)
            found = self._file.read(step) + found
        before = len(found)
        for _ in range(lines + 1):
            before = found.rfind(b"\n", 0, before)
            if before < 0:
                break
        self._file.seek(position + before + 1)
