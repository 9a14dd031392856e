"""The requests of the operator to the API server, in the order they were sent."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LENGTH = struct.Struct("<I")


class Exchange(Struct, array_like=True):
    """One request and the status of its response; streams (watches) are not recorded.

    Attributes:
        started: Seconds on the machine's monotonic clock, which all processes share.
        ended: The same, when the whole response had arrived.
        method: Upper case.
        path: Path and query, below the server address.
        content_type: Content type of the body; empty without one.
        status: HTTP status code; 0 when no response arrived.
        body: Body of the request.
    """

    started: float
    ended: float
    method: str
    path: str
    content_type: str
    status: int
    body: bytes

    @property
    def is_write(self) -> bool:
        """Whether it is a write."""
        return self.method != "GET"

    @property
    def seconds(self) -> float:
        """Seconds from the first byte sent to the last one received."""
        return self.ended - self.started


class Recorder:
    """Appends exchanges to a file, to keep them out of the measured memory."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self._encode = msgspec.msgpack.Encoder().encode

    def record(self, exchange: Exchange) -> None:
        """Append one exchange."""
        data = self._encode(exchange)
        self._file.write(_LENGTH.pack(len(data)) + data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read(path: Path) -> Iterator[Exchange]:
    """Read all exchanges of a file that may still be growing, by the time they ended."""
    decode = msgspec.msgpack.Decoder(Exchange).decode
    data = memoryview(path.read_bytes())
    position = 0
    while position < len(data):
        if position + _LENGTH.size > len(data):
            return
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if position + length > len(data):
            return
        yield decode(data[position : position + length])
        position += length
