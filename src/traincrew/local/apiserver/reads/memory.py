"""Return free memory to the operating system.

The C library keeps freed memory that lies between blocks in use. After many clients have
disconnected, or slow ones with a large backlog, that is most of the memory of this process.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

__all__ = ["Trimmer"]

DELAY = 2.0
"""Seconds from the first request until memory is returned: clients disconnect in groups."""


def _trim() -> None:
    """Call `malloc_trim` of glibc; other C libraries have none."""
    import ctypes

    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


class Trimmer:
    """Returns free memory to the operating system, with a delay."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def soon(self) -> None:
        """Return free memory in `DELAY` seconds, once for all requests until then."""
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(DELAY, self._start)

    def _start(self) -> None:
        self._timer = None
        asyncio.get_running_loop().run_in_executor(None, _trim)

    def close(self) -> None:
        """Cancel a scheduled return; ignore later requests."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
