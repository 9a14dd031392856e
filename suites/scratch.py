"""The directory that a run of the suites writes into: gigabytes that no run may leave behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDED_BYTES = 36 * 2**30
"""What a run with empty caches takes at most, with the images in the nodes of a real cluster."""
_PREFIX = "suites-"


@contextlib.contextmanager
def directory(parent: Path | None = None) -> Iterator[Path]:
    """Yield an empty directory that only this user can read, and remove it afterwards.

    Removed first: those of runs that were killed, whose lock nobody holds any more.

    Args:
        parent: The directory for it, if not the usual one for temporary files. Its path is short:
            sockets are made below it.
    """
    parent = parent or Path(tempfile.gettempdir())
    for found in parent.glob(f"{_PREFIX}*"):
        _remove_unused(found)
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    with _locked(made):
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)


def shortage(path: Path) -> str | None:
    """Return what to say if a run may not find enough space where `path` is."""
    free = shutil.disk_usage(path).free
    if free >= NEEDED_BYTES:
        return None
    return (
        f"warning: {free / 2**30:.0f} GiB are free at {path}; suites that start a real cluster"
        f" need up to {NEEDED_BYTES / 2**30:.0f} GiB"
    )


def _remove_unused(found: Path) -> None:
    with contextlib.suppress(OSError), _locked(found):  # else another user's, or in use
        # An empty one may have been made just now.
        if found.stat().st_uid == os.geteuid() and any(found.iterdir()):
            shutil.rmtree(found, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(directory)
