"""Directories and files that no other user can write, whatever the umask is."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["is_safe_parent", "make_directory", "private_directory", "write_new"]


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


def make_directory(path: Path) -> None:
    """Create a directory, and those above it, that only their owner can write.

    An existing one stays as it is.

    Raises:
        OSError: It cannot be created, or is not a directory.
    """
    try:
        path.mkdir(mode=0o755, exist_ok=True)
    except FileNotFoundError:
        make_directory(path.parent)
        path.mkdir(mode=0o755, exist_ok=True)


def write_new(path: Path, content: bytes) -> None:
    """Write a file that only its owner can write, in place of an existing one.

    Raises:
        OSError: It cannot be written.
    """
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
        file.write(content)


def private_directory(path: Path) -> None:
    """Create a directory of mode 0700, or set that mode on an existing one, whatever the umask.

    Raises:
        PermissionError: It belongs to another user.
        OSError: It cannot be created, or is not a directory.
    """
    make_directory(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise PermissionError(
            f"{path} belongs to another user (uid {found.st_uid}); use a directory of your own"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)
