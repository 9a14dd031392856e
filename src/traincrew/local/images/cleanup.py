"""Removal of the files that killed builders left in the cache."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from traincrew.local.directories import remove_tree
from traincrew.local.images.locks import try_hold
from traincrew.local.images.trees import MARKER, recipe_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DOWNLOADS_LOCK", "sweep", "sweep_downloads"]

DOWNLOADS_LOCK = "downloads.lock"


def sweep(cache: Path) -> None:
    """Remove incomplete environments and temporary files that no process works on.

    Environments that another process is building are locked and stay; a cache that cannot be
    written is left as it is.
    """
    with contextlib.suppress(OSError):
        for path in (cache / "environments").iterdir():
            if ".removed-" in path.name:
                _remove(path)
            elif path.suffix == "" and not (path / MARKER).is_file() and path.is_dir():
                _remove_unlocked(path, recipe_of(path).with_suffix(".lock"))
    with contextlib.suppress(OSError):
        for path in (cache / "temporary").iterdir():
            _remove_unlocked(path, cache / "environments" / f"{path.name}.lock")
    sweep_downloads(cache)


def sweep_downloads(cache: Path) -> None:
    """Remove partial downloads, unless some process is downloading."""
    with contextlib.suppress(OSError), try_hold(cache / DOWNLOADS_LOCK) as alone:
        if not alone:
            return
        # uv unpacks into directories of this name and renames them when they are complete.
        downloads = cache / "downloads"
        for path in [*downloads.glob(".tmp*"), *downloads.glob("*/.tmp*")]:
            _remove(path)
        for path in (cache / "python" / ".temp").iterdir():
            _remove(path)


def _remove_unlocked(path: Path, lock: Path) -> None:
    with contextlib.suppress(OSError), try_hold(lock) as alone:
        # Checked again: it may have been completed before the lock was free.
        if alone and not (path / MARKER).is_file():
            _remove(path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
        else:
            path.unlink()
