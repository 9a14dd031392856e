"""The files a shim writes, from which a restarted node adopts its container.

In the directory of a container instance: `process.json` (shim and program), `exit.json` (how it
ended), `abandoned` (the node gave the instance up before it started) and `log`.
"""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import calendar
import errno
import json
import os
import sys
import time
from typing import Any

_RESERVED_BYTES = 4096

OUT_OF_MEMORY = "oom"
"""File of an instance that has exceeded its memory limit."""


def write_json(path: str, document: dict[str, Any]) -> None:
    """Write a file atomically."""
    temporary = f"{path}.new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(document, file)
    os.rename(temporary, path)


class Reserved:
    """A small file whose space is taken before it is known what it will contain.

    A full disk then does not keep the end of a container from being recorded.
    """

    def __init__(self, path: str) -> None:
        """Take the space.

        Raises:
            OSError: There is none.
        """
        self._path = path
        self._temporary = f"{path}.new"
        with open(self._temporary, "wb") as file:
            file.write(b" " * _RESERVED_BYTES)

    def write(self, document: dict[str, Any]) -> None:
        """Write the file atomically.

        Raises:
            OSError: A file system that copies on write is full, or the document is too large.
        """
        data = json.dumps(document).encode()
        with open(self._temporary, "r+b") as file:
            file.write(data)
            file.truncate(len(data))
        os.rename(self._temporary, self._path)


def is_full(error: OSError) -> bool:
    """Return whether a write failed because the disk, or the user's part of it, is full."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def start_time(process: int) -> int:
    """Return when a process started; together with its PID this identifies it for good.

    The unit is the system's: clock ticks since boot, or seconds since the epoch.

    Raises:
        OSError: There is no such process.
    """
    return _describe(process)[1]


def is_running(process: int, start: int) -> bool:
    """Return whether this very process is running (a zombie is not)."""
    try:
        state, started = _describe(process)
    except OSError:
        return False
    return started == start and state not in {"Z", "X"}


def _describe(process: int) -> tuple[str, int]:
    """Return state letter and start time."""
    if sys.platform != "linux":
        return describe_by_ps(process)
    with open(f"/proc/{process}/stat", "rb") as file:
        # The name, in parentheses, may contain anything; the state follows it.
        fields = file.read().rpartition(b")")[2].split()
    return fields[0].decode(), int(fields[19])


def describe_by_ps(process: int) -> tuple[str, int]:
    """Return state letter and start time of a process where there is no `/proc`.

    Raises:
        ProcessLookupError: There is no such process.
    """
    with os.popen(f"LC_ALL=C TZ=UTC ps -o state= -o lstart= -p {process}") as pipe:  # noqa: S605  # a number
        state, _, started = pipe.read().strip().partition(" ")
    if not state:
        raise ProcessLookupError(3, f"no process {process}")
    return state[0], calendar.timegm(time.strptime(started.strip(), "%a %b %d %H:%M:%S %Y"))


def now() -> str:
    """Return the time as RFC 3339 in UTC with nanoseconds, as in CRI logs."""
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    year, month, day, hour, minute, second = time.gmtime(seconds)[:6]
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{rest:09}Z"
