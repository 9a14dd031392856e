"""Directories that only their owner can access."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["is_safe_parent", "private_directory"]


def is_safe_parent(directory: Path) -> bool:
    """Return whether only root can replace entries that this user creates in a directory."""
    try:
        found = directory.stat()
    except OSError:
        return False
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid in {0, os.geteuid()}
        and bool(not shared or found.st_mode & stat.S_ISVTX)
    )


def private_directory(path: Path) -> None:
    """Create a directory of mode 0700, or set that mode on an existing one, whatever the umask.

    Raises:
        PermissionError: It belongs to another user.
        OSError: It cannot be created, or is not a directory.
    """
    missing = [each for each in path.parents if not each.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode=0o755, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise PermissionError(
            f"{path} belongs to another user (uid {found.st_uid}); use a directory of your own"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)
