"""What a client asks for of a command's streams, and its terminal: of either framing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from traincrew.local.apiserver.values.codec import DecodeError, decode

if TYPE_CHECKING:
    from traincrew.local.apiserver.requests import Call

__all__ = ["RequestedStreams"]

_CELLS = range(1 << 16)
_MAX_SIZE_BYTES = 1024


class RequestedStreams:
    """The streams that a client asks for, and the size of its terminal.

    Attributes:
        tty: whether the client wants a terminal.
        stdin: whether it sends input.
        stdout: whether it wants the output.
        stderr: whether it wants the errors apart from the output; with a terminal, never.
    """

    def __init__(self, call: Call) -> None:
        self.tty = bool(call.flag("tty"))
        self.stdin = bool(call.flag("stdin"))
        self.stdout = bool(call.flag("stdout"))
        self.stderr = bool(call.flag("stderr")) and not self.tty
        self._size: tuple[int, int] | None = None  # the last one that nobody has read
        self._resized = asyncio.Event()

    def resize(self, data: bytes) -> None:
        """Take a size from the client; what is none has no effect."""
        size = _terminal_size(data)
        if size is not None:
            self._size = size
            self._resized.set()

    async def resized(self) -> tuple[int, int] | None:
        """Wait for the next size of the terminal: columns, rows."""
        await self._resized.wait()
        self._resized.clear()
        return self._size


def _terminal_size(data: bytes) -> tuple[int, int] | None:
    """Return columns and rows; None for anything that is no size."""
    if len(data) > _MAX_SIZE_BYTES:
        return None
    try:
        size = decode(data)
    except DecodeError:
        return None
    if type(size) is not dict:
        return None
    columns, rows = size.get("Width"), size.get("Height")
    if type(columns) is int and type(rows) is int and columns in _CELLS and rows in _CELLS:
        return columns, rows
    return None
