"""Keeps the log of a cluster's background process small while it runs.

The log is standard output and standard error of the process, so that it has what libraries and the
interpreter print, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BYTES_KEPT", "keep_small", "rotate"]

BYTES_KEPT = 4 * 1024 * 1024
"""A longer log is renamed to `daemon.log.1`, which replaces the previous one."""

EVERY_SECONDS = 1.0
_OUTPUT = (1, 2)


async def keep_small(log: Path) -> None:
    """Rotate the log whenever it is too long, until cancelled."""
    while True:
        with contextlib.suppress(OSError):  # the disk is full, or the directory was removed
            rotate(log)
        await asyncio.sleep(EVERY_SECONDS)


def rotate(log: Path) -> None:
    """Continue in a new file if the log is too long and is the output of this process.

    Raises:
        OSError: A file cannot be renamed or created.
    """
    ours = [each for each in _OUTPUT if _is_output(log, each)]
    if not ours or log.stat().st_size <= BYTES_KEPT:
        return
    log.replace(log.with_suffix(".log.1"))
    new = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        for each in ours:
            os.dup2(new, each)
    finally:
        os.close(new)


def _is_output(log: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), log.stat())
    except OSError:
        return False
