"""What killed processes left in the temporary directory: state directories that nobody serves.

All users share that directory, so nothing in it is trusted by its name. A state directory is
removed only if it and its lock file belong to this user, its mode is 0700, and the lock is free.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from traincrew.local.directories import discard_tree, is_safe_parent
from traincrew.local.statelock import FILE, StateInUseError, StateLock, holder_of

__all__ = ["Removed", "find", "remove", "sweep", "temporary_state"]

_PREFIX = "traincrew-"
_MAX_ENTRIES = 10_000
"""Entries that are examined; any user can create any number of them."""
_BLOCK = 512
_ATTEMPTS = 5


class Removed(NamedTuple):
    """What a sweep has removed.

    Attributes:
        directories: How many state directories.
        size: Bytes that they occupied on disk.
    """

    directories: int
    size: int


def temporary_state() -> tuple[Path, StateLock]:
    """Create a state directory in the temporary directory, and take its lock.

    Raises:
        OSError: It cannot be created.
    """
    for attempt in range(_ATTEMPTS):
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            return directory, StateLock(directory)
        except (StateInUseError, FileNotFoundError):
            # A sweep found the lock file before it was locked.
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def find(root: Path | None = None) -> list[Path]:
    """Return the state directories of this user that no process serves.

    Args:
        root: By default the temporary directory.
    """
    root = root or Path(tempfile.gettempdir())
    if not is_safe_parent(root):
        return []
    with suppress(OSError), os.scandir(root) as entries:
        names = [entry.name for entry in islice(entries, _MAX_ENTRIES)]
        return [root / name for name in sorted(names) if _is_left(root / name)]
    return []


def sweep(root: Path | None = None) -> Removed:
    """Remove the state directories of this user that no process serves.

    Args:
        root: By default the temporary directory.
    """
    count = size = 0
    for directory in find(root):
        with suppress(OSError, StateInUseError):
            lock = StateLock(directory)
            try:
                occupied = _size(directory)
                remove(directory)
                size += occupied
                count += 1
            finally:
                lock.release()
    return Removed(count, size)


def _is_left(directory: Path) -> bool:
    if not directory.name.startswith(_PREFIX):
        return False
    try:
        found, lock = directory.lstat(), (directory / FILE).lstat()
        return (
            stat.S_ISDIR(found.st_mode)
            and stat.S_IMODE(found.st_mode) == 0o700
            and stat.S_ISREG(lock.st_mode)
            and found.st_uid == lock.st_uid == os.geteuid()
            and holder_of(directory) is None
        )
    except OSError:
        return False


def remove(directory: Path) -> None:
    """Remove a state directory, its lock file last: what remains is found again.

    The caller holds its lock, so that nobody takes it for one that a killed process left.

    Raises:
        OSError: Something in it cannot be removed; the rest is.
    """
    for entry in directory.iterdir():
        if entry.name == FILE:
            continue
        if entry.is_dir() and not entry.is_symlink():
            discard_tree(entry)
        else:
            entry.unlink()
    if left := [entry for entry in directory.iterdir() if entry.name != FILE]:
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(left[0]))
    (directory / FILE).unlink()
    directory.rmdir()


def _size(directory: Path) -> int:
    """Return the bytes that the files in a directory occupy on disk."""
    size = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                size += Path(parent, name).lstat().st_blocks * _BLOCK
    return size
