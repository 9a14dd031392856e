"""What a shim leaves on disk, so that the node can find its container again after a restart.

In the directory of a container instance: `process.json` (who runs it), `exit.json` (how it ended),
`abandoned` (the node gave the instance up before it started) and `log`.
"""

# No pathlib in here: it would double the imports of every shim.
# ruff: noqa: PTH
from __future__ import annotations

import json
import os
import time
from typing import Any


def write_json(path: str, document: dict[str, Any]) -> None:
    """Write a file so that a reader sees all of it or nothing."""
    temporary = f"{path}.new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(document, file)
    os.rename(temporary, path)


def start_time(process: int) -> int:
    """When a process started, in clock ticks since boot; 0 where the system does not say.

    Together with the number this names a process for good: numbers are used again.

    Raises:
        OSError: There is no such process.
    """
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # The name, in parentheses, may hold anything; field 22 counts from after it.
            return int(file.read().rpartition(b")")[2].split()[19])
    except FileNotFoundError:
        if os.path.exists("/proc/self/stat"):
            raise
        os.kill(process, 0)
        return 0


def now() -> str:
    """The time as RFC 3339 in UTC with nanoseconds, as in CRI logs."""
    nanoseconds = time.time_ns()
    return stamp(nanoseconds)


def stamp(nanoseconds: int) -> str:
    """A time in nanoseconds since the epoch as RFC 3339 in UTC."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    year, month, day, hour, minute, second = time.gmtime(seconds)[:6]
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{rest:09}Z"
