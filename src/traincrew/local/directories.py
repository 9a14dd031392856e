"""Directories that only their owner can access."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["private_directory"]


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
