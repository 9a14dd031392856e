"""Directories that are being filled, and what processes that were killed have left of them."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from typing import TYPE_CHECKING

from traincrew.local.directories import remove_tree
from traincrew.local.filelocks import is_named, try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["BLOB", "PINS", "REMOVED", "held_lock", "new_directory", "sweep"]

_KEPT_SECONDS = 24 * 3600
"""How long the bytes of a blob are kept that a later pull could go on with."""
_POLL_SECONDS = 0.05
BLOB = ".blob"
LOCK = ".lock"
PINS = ".pins"
REMOVED = "removed-"


@contextlib.contextmanager
def held_lock(
    path: Path, *, shared: bool = False, wait: bool = True, keep: bool = False
) -> Iterator[bool]:
    """Hold a lock file, which is removed with its last holder; yield whether it is held.

    Args:
        path: of the file.
        shared: whether others may share it.
        wait: whether to wait for others.
        keep: whether the file stays.

    Raises:
        OSError: The file cannot be opened.
    """
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            held = try_lock(fd, shared=shared)
            if not held and not wait:
                yield False
                return
            # Its last holder may have removed it meanwhile.
            if held and is_named(path, fd):
                try:
                    yield True
                finally:
                    if not keep and (not shared or try_lock(fd)):
                        path.unlink(missing_ok=True)
                return
        finally:
            os.close(fd)
        if not held:
            time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def new_directory(partial: Path, kind: str) -> Iterator[Path]:
    """Make a directory that is this process' while it works; what is left of it is removed.

    Args:
        partial: where.
        kind: how its name begins.

    Raises:
        OSError: It cannot be made.
    """
    path = partial / f"{kind}-{secrets.token_hex(8)}"
    with held_lock(path.with_name(path.name + LOCK)):
        path.mkdir(mode=0o700)
        try:
            yield path
        finally:
            remove_tree(path)


def sweep(partial: Path) -> None:
    """Remove what nobody works on, but for blobs that a pull may go on with.

    Args:
        partial: the directory of what is not complete.
    """
    with contextlib.suppress(OSError):
        for path in partial.iterdir():
            with contextlib.suppress(OSError):
                _sweep_one(path)


def _sweep_one(path: Path) -> None:
    if path.name.startswith(REMOVED):
        remove_tree(path)
        return
    if path.suffix == PINS:
        with path.open("rb") as file:
            if try_lock(file.fileno()):
                path.unlink(missing_ok=True)
        return
    if path.suffix == LOCK:
        if not path.with_suffix("").exists():
            with held_lock(path, wait=False):
                pass  # removed by its last holder, which this is if nobody else is
        return
    with held_lock(path.with_name(path.name + LOCK), wait=False) as alone:
        if not alone:
            return
        if path.suffix == BLOB and time.time() - path.lstat().st_mtime < _KEPT_SECONDS:
            return
        remove_tree(path)
