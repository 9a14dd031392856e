"""Locks between processes that share a cache.

A lock is held by an open file (``flock``), so it is released when its last holder ends, however it
ends; the programs that do the work inherit it, so it outlives a killed builder until they are done.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

from traincrew.local.filelocks import try_lock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

__all__ = ["hold", "share", "try_hold"]

_POLL_SECONDS = 0.2


@contextlib.asynccontextmanager
async def hold(path: Path, on_wait: Callable[[], None]) -> AsyncIterator[int]:
    """Hold the lock file `path`; yield its file descriptor.

    Args:
        path: Created if missing.
        on_wait: Called once if another process holds it.

    Raises:
        OSError: The file cannot be opened.
    """
    with _open(path) as descriptor:
        waited = False
        while not try_lock(descriptor):
            if not waited:
                on_wait()
                waited = True
            await asyncio.sleep(_POLL_SECONDS)
        yield descriptor


@contextlib.contextmanager
def try_hold(path: Path) -> Iterator[bool]:
    """Hold the lock file `path` if no other process does; yield whether it is held.

    Raises:
        OSError: The file cannot be opened.
    """
    with _open(path) as descriptor:
        yield try_lock(descriptor)


@contextlib.asynccontextmanager
async def share(path: Path) -> AsyncIterator[int]:
    """Hold a shared lock of the file `path`; yield its file descriptor.

    Raises:
        OSError: The file cannot be opened.
    """
    with _open(path) as descriptor:
        # An exclusive holder only cleans up, which is short.
        while not try_lock(descriptor, shared=True):  # noqa: ASYNC110 - other processes
            await asyncio.sleep(_POLL_SECONDS)
        yield descriptor


@contextlib.contextmanager
def _open(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
