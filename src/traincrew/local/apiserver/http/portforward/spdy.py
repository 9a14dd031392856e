"""The server side of SPDY/3.1, as far as Kubernetes streams use it.

The format is that of draft-mbelshe-httpbis-spdy-00: clients open streams, both sides send data on
them. There is no flow control, as in the library that kubectl and upstream use (moby/spdystream):
a stream that is not read blocks the whole connection.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Connection", "SpdyError", "Stream", "Transport"]

# Section 2.6.10.1: length-prefixed words, then plain text.
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language "
    "accept-ranges age allow authorization cache-control connection content-base content-encoding "
    "content-language content-length content-location content-md5 content-range content-type date "
    "etag expect expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified location max-forwards pragma proxy-authenticate "
    "proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url "
    "public set-cookie keep-alive origin"
)
_TEXT = (
    "1001012012022052063003023033043053063074024054064074084094104114124134144154164175025045052"
    "03 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 "
    "Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service "
    "UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, "
    "Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,"
    "sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _with_length(text: str) -> bytes:
    return struct.pack("!I", len(text)) + text.encode()


DICTIONARY = b"".join(_with_length(w.replace("_", " ")) for w in _WORDS.split()) + _TEXT.encode()
"""The preset dictionary of the header compression."""

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_CONTROL, _VERSION = 0x8000, 3
_FIN = 1
_PROTOCOL_ERROR, _REFUSED_STREAM = 1, 3
_HEAD = struct.Struct("!II")

# Limits for hostile clients: bytes of a frame and of a header block, and concurrent streams.
_MAX_FRAME_BYTES = 1 << 20
_MAX_HEADER_BYTES = 64 * 1024
_MAX_STREAMS = 2048
# Bytes of a stream that may be buffered before the connection is no longer read.
_MAX_BUFFERED = 1 << 20
_CHUNK = 32 * 1024


class SpdyError(Exception):
    """The client violates the SPDY/3.1 protocol, or exceeds a limit."""


class Transport(Protocol):
    """A byte stream to the client."""

    async def read(self) -> bytes:
        """Return the received bytes; ``b""`` at the end."""

    async def write(self, data: bytes) -> None:
        """Send; return when there is room for more.

        Raises:
            ConnectionError: the client has disconnected.
        """


class Stream:
    """A stream, opened by the client.

    Attributes:
        number: number of the stream.
        headers: headers from the client, names in lower case.
    """

    def __init__(self, connection: Connection, number: int, headers: dict[str, str]) -> None:
        self.number = number
        self.headers = headers
        self._connection = connection
        self._chunks: list[bytes] = []
        self._waiting = 0
        self._ended = False
        self._closed = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def read(self) -> bytes:
        """Return the next data; ``b""`` when the client has closed its side."""
        while not self._chunks and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._waiting = 0
        self._room.set()
        return data

    async def write(self, data: bytes) -> None:
        """Send data; no effect once the stream is closed.

        Raises:
            ConnectionError: the client has disconnected.
        """
        for start in range(0, len(data), _CHUNK):
            if not self._closed:
                await self._connection.send_data(self.number, data[start : start + _CHUNK])

    async def close(self) -> None:
        """Close the server's side; the client may still send."""
        if not self._closed:
            self._closed = True
            await self._connection.send_data(self.number, b"", _FIN)
            self._connection.forget(self)

    @property
    def is_closed(self) -> bool:
        """Whether both sides are closed."""
        return self._closed and self._ended

    async def feed(self, data: bytes) -> None:
        """Buffer data from the client, once there is room for it."""
        await self._room.wait()
        if self._ended:
            return
        self._chunks.append(data)
        self._waiting += len(data)
        if self._waiting >= _MAX_BUFFERED and not self._closed:
            self._room.clear()
        self._changed.set()

    def end(self, *, reset: bool = False) -> None:
        """Mark the client's side as closed; a reset closes both sides."""
        self._ended = True
        self._closed = self._closed or reset
        self._room.set()
        self._changed.set()


class Connection:
    """A SPDY connection, with many streams.

    Args:
        transport: carries the frames.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._buffer = bytearray()
        self._streams: dict[int, Stream] = {}
        self._last = 0
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._sending = asyncio.Lock()

    async def serve(self, accept: Callable[[Stream], Awaitable[None]]) -> None:
        """Read frames until the client disconnects.

        Args:
            accept: called with each new stream, before any of its data is read.

        Raises:
            SpdyError: the client violates the protocol or exceeds a limit.
            ConnectionError: the client has disconnected while a frame was being sent.
        """
        try:
            while await self._frame(accept):
                pass
        finally:
            for stream in self._streams.values():
                stream.end(reset=True)
            self._streams.clear()

    async def send_data(self, number: int, data: bytes, flags: int = 0) -> None:
        """Send a data frame."""
        await self._send(_HEAD.pack(number, flags << 24 | len(data)) + data)

    def forget(self, stream: Stream) -> None:
        """Remove a stream if both sides are closed."""
        if stream.is_closed:
            self._streams.pop(stream.number, None)

    async def _read_exactly(self, count: int) -> bytes | None:
        """Read this many bytes; return None when the client has disconnected."""
        while len(self._buffer) < count:
            data = await self._transport.read()
            if not data:
                return None
            self._buffer += data
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    async def _frame(self, accept: Callable[[Stream], Awaitable[None]]) -> bool:
        head = await self._read_exactly(_HEAD.size)
        if head is None:
            return False
        first, rest = _HEAD.unpack(head)
        flags, length = rest >> 24, rest & 0xFFFFFF
        if length > _MAX_FRAME_BYTES:
            raise SpdyError(f"a frame of {length} bytes")
        body = await self._read_exactly(length)
        if body is None:
            return False
        if first >> 31:
            if (first >> 16) != _CONTROL | _VERSION:
                raise SpdyError(f"version {first >> 16 & 0x7FFF} of SPDY")
            return await self._control(first & 0xFFFF, flags, body, accept)
        stream = self._streams.get(first)
        if stream is not None:
            if body:
                await stream.feed(body)
            if flags & _FIN:
                stream.end()
                self.forget(stream)
        return True

    async def _control(
        self, kind: int, flags: int, body: bytes, accept: Callable[[Stream], Awaitable[None]]
    ) -> bool:
        try:
            if kind == _SYN_STREAM:
                await self._open(flags, body, accept)
            elif kind == _RST_STREAM:
                stream = self._streams.pop(struct.unpack_from("!I", body)[0], None)
                if stream is not None:
                    stream.end(reset=True)
            elif kind == _PING and struct.unpack("!I", body)[0] % 2 == 1:
                await self._send_control(_PING, body)
        except struct.error as error:
            raise SpdyError(f"a frame of type {kind} that is cut short") from error
        return kind != _GOAWAY

    async def _open(
        self, flags: int, body: bytes, accept: Callable[[Stream], Awaitable[None]]
    ) -> None:
        number = struct.unpack_from("!I", body)[0] & 0x7FFFFFFF
        headers = self._headers(body[10:])
        if number <= self._last or number % 2 == 0:
            raise SpdyError(f"stream {number} after {self._last}")
        self._last = number
        if len(self._streams) >= _MAX_STREAMS:
            await self._send_control(_RST_STREAM, struct.pack("!II", number, _REFUSED_STREAM))
            return
        stream = Stream(self, number, headers)
        self._streams[number] = stream
        if flags & _FIN:
            stream.end()
        block = self._deflate.compress(struct.pack("!I", 0))
        block += self._deflate.flush(zlib.Z_SYNC_FLUSH)
        await self._send_control(_SYN_REPLY, struct.pack("!I", number) + block)
        await accept(stream)

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            data = self._inflate.decompress(block, _MAX_HEADER_BYTES)
        except zlib.error as error:
            raise SpdyError(f"headers that cannot be inflated: {error}") from error
        if self._inflate.unconsumed_tail:
            raise SpdyError(f"headers of more than {_MAX_HEADER_BYTES} bytes")
        position = 4

        def text() -> str:
            nonlocal position
            (length,) = struct.unpack_from("!I", data, position)
            position += 4 + length
            if position > len(data):
                raise SpdyError("headers that are cut short")
            return data[position - length : position].decode("utf-8", "replace")

        headers = {}
        for _ in range(min(struct.unpack_from("!I", data)[0], len(data))):
            name = text().lower()
            headers[name] = text()
        return headers

    async def _send_control(self, kind: int, body: bytes) -> None:
        await self._send(_HEAD.pack((_CONTROL | _VERSION) << 16 | kind, len(body)) + body)

    async def _send(self, frame: bytes) -> None:
        async with self._sending:
            await self._transport.write(frame)
