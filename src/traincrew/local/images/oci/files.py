"""Reading a file of an image from its layers, as a container would see it.

Links are followed inside the image; nothing outside of its layers is opened.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from traincrew.local.images.oci.opaque import is_opaque

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["read_file", "real_path"]

_MAX_LINKS = 40
"""As in the kernel."""
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def read_file(layers: Sequence[Path], path: str, limit: int) -> bytes | None:
    """Return the content of a file of an image.

    Args:
        layers: as of `StoredImage`.
        path: absolute.
        limit: bytes that are read at most.

    Returns:
        None if it is not there, is no file, or its links lead nowhere.
    """
    found = _resolve(layers, path)
    if found is None or not stat.S_ISREG(os.lstat(found[1][0]).st_mode):
        return None
    with os.fdopen(os.open(found[1][0], _FLAGS), "rb") as file:
        return file.read(limit)


def real_path(layers: Sequence[Path], path: str) -> tuple[str, bool] | None:
    """Return a path of an image without links, relative to its root, and whether it is a directory.

    Args:
        layers: as of `StoredImage`.
        path: absolute, or relative to the root.

    Returns:
        None if it is neither a file nor a directory, or its links lead nowhere.
    """
    found = _resolve(layers, path)
    if found is None:
        return None
    mode = os.lstat(found[1][0]).st_mode
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        return None
    return found[0], stat.S_ISDIR(mode)


def _resolve(layers: Sequence[Path], path: str) -> tuple[str, list[str]] | None:
    """Return a path of an image without links, and where that is: of a directory, in each layer."""
    # Names from the root on, each below any of these directories, the highest first.
    top = "", [os.fspath(layer) for layer in reversed(layers)]
    at = [top]
    waiting = _parts(path)
    links = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            at = at[:-1] or [top]
            continue
        found = _lookup(at[-1][1], part)
        if not found:
            return None
        mode = os.lstat(found[0]).st_mode
        if stat.S_ISLNK(mode):
            links += 1
            if links > _MAX_LINKS:
                return None
            target = os.readlink(found[0])  # noqa: PTH115  # as text: it may name anything
            at = [top] if target.startswith("/") else at
            waiting += _parts(target)
        elif stat.S_ISDIR(mode) or not waiting:
            at = [*at, (part, found)]
        else:
            return None
    return "/".join(name for name, _ in at[1:]), at[-1][1]


def _parts(path: str) -> list[str]:
    """Return the parts of a path, the last one first."""
    return [part for part in reversed(path.split("/")) if part not in {"", "."}]


def _lookup(directories: Sequence[str], name: str) -> list[str]:
    """Return the paths of an entry of a directory; several if they are directories to be merged."""
    found: list[str] = []
    for directory in directories:
        path = f"{directory}/{name}"
        try:
            status = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
            break
        if not stat.S_ISDIR(status.st_mode):
            return found or [path]
        found.append(path)
        if is_opaque(path):
            break
    return found
