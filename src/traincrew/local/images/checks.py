"""Checks before anything of a cache, or named by a catalog, is read, written or executed."""

from __future__ import annotations

import errno
import stat
import uuid
from typing import TYPE_CHECKING

from traincrew.local.directories import check_trusted, make_directory
from traincrew.local.images.errors import BuildError
from traincrew.local.images.trees import MARKER

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MAX_COPY_BYTES", "check_cache", "check_writable", "is_copyable"]

MAX_COPY_BYTES = 16 << 20
"""Of a file that is copied into an environment, and of a program."""
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def is_copyable(source: Path) -> bool:
    """Return whether a file can be read whole: it is no pipe or device, and not too large."""
    try:
        found = source.stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= MAX_COPY_BYTES


def check_cache(cache: Path, tree: Path | None = None) -> None:
    """Check that nobody but this user and root can write what a cache holds.

    It is executed and imported: packages that were downloaded, interpreters, environments.

    Args:
        cache: The cache.
        tree: The environment that is to be used.

    Raises:
        BuildError: Another user can write there; one line with the place and the fix.
    """
    places = [cache / "downloads", cache / "python", cache / "programs", cache / "environments"]
    places += (cache / "python").glob("*/bin")
    if tree is not None:
        places += [tree, tree / MARKER, tree / "bin"]
    try:
        for place in places:
            check_trusted(place)
    except OSError as error:
        problem = error.strerror or str(error)
        where = f"{error.filename}: " if error.filename else ""
        raise BuildError(
            f"the cache is not safe to use: {where}{problem}; or set TRAINCREW_CACHE to another"
        ) from error


def check_writable(cache: Path, name: str) -> None:
    """Check that environment `name` could be built into `cache`.

    Raises:
        BuildError: The cache cannot be written; the message names a fix.
    """
    directory = cache / "environments"
    try:
        make_directory(directory)
        probe = directory / f".{uuid.uuid4().hex}.lock"
        probe.touch(mode=0o600)
        probe.unlink()
    except OSError as error:
        raise _unusable(cache, name, error) from error


def _unusable(cache: Path, name: str, error: OSError) -> BuildError:
    where = f"{error.filename or cache}: {error.strerror or error}"
    if error.errno in _READ_ONLY:
        return BuildError(
            f"it is not built yet, and the cache {cache} cannot be written ({where}): build "
            f'"{name}" where it can be written ("traincrew images pull IMAGE"), or set '
            "TRAINCREW_CACHE to a directory of yours"
        )
    return BuildError(f"{where}: set TRAINCREW_CACHE to a directory that can be written")
