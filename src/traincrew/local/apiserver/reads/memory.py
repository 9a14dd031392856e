"""Return free memory to the operating system.

The C library keeps freed memory that lies between blocks in use. After many clients have
disconnected, or slow ones with a large backlog, that is most of the memory of this process.
"""

from __future__ import annotations

import asyncio
import ctypes
from typing import Any

__all__ = ["Trimmer"]

DELAY = 2.0
"""Seconds from the first request until memory is returned: clients disconnect in groups."""


def _find_malloc_trim() -> Any:
    """Return `malloc_trim` of glibc; None with another C library."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None


_TRIM = _find_malloc_trim()


class Trimmer:
    """Returns free memory to the operating system, with a delay."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def soon(self) -> None:
        """Return free memory in `DELAY` seconds, once for all requests until then."""
        if self._timer is None and not self._closed and _TRIM is not None:
            self._timer = asyncio.get_running_loop().call_later(DELAY, self._start)

    def _start(self) -> None:
        self._timer = None
        asyncio.get_running_loop().run_in_executor(None, _TRIM, 0)

    def close(self) -> None:
        """Cancel a scheduled return; ignore later requests."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
