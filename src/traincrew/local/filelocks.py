"""Locks of open files between processes (``flock``).

The kernel releases a lock when the last process that has inherited its descriptor closes it or
ends, however it ends. It is held by the open file and not by its name: another process may have
removed the file meanwhile, and created another one of that name.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["is_named", "try_lock"]


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file, without waiting; return whether it is locked.

    Args:
        descriptor: The file; closing it releases the lock.
        shared: Whether other shared locks may be held at the same time.

    Raises:
        OSError: The file system has no locks.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_named(path: Path, descriptor: int) -> bool:
    """Return whether a path still names an open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
