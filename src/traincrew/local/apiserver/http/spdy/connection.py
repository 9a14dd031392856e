"""The server side of SPDY/3.1, as far as Kubernetes streams use it.

The format is that of draft-mbelshe-httpbis-spdy-00: clients open streams, both sides send data on
them. There is no flow control, as in the library that kubectl and upstream use (moby/spdystream):
SETTINGS and WINDOW_UPDATE have no effect, and a stream that is not read blocks the whole
connection.
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

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_CONTROL, _VERSION = 0x8000, 3
_FIN = 1
_PROTOCOL_ERROR, _REFUSED_STREAM = 1, 3
_HEAD = struct.Struct("!II")

# Limits for hostile clients: bytes of a frame and of a header block, and concurrent streams.
_MAX_FRAME_BYTES = 1 << 20
_MAX_HEADER_BYTES = 8 * 1024
_MAX_STREAMS = 2048
# Unread bytes of a stream, and of all streams, at which the connection is no longer read.
_MAX_UNREAD = 1 << 20
_MAX_UNREAD_OF_ALL = 8 << 20
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
        self._unread = bytearray()
        self._ended = False
        self._closed = False
        self._changed = asyncio.Event()

    async def read(self) -> bytes:
        """Return the next data; ``b""`` when the client has closed its side."""
        while not self._unread and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        data = bytes(self._unread)
        self._discard()
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
        """Close the server's side; what the client still sends is discarded."""
        if not self._closed:
            self._closed = True
            self._discard()
            await self._connection.send_data(self.number, b"", _FIN)
            self._connection.forget(self)

    @property
    def is_closed(self) -> bool:
        """Whether both sides are closed."""
        return self._closed and self._ended

    async def feed(self, data: bytes) -> None:
        """Buffer data from the client, once there is room for it."""
        while self._is_read and not self._connection.has_room(len(self._unread)):
            await self._connection.wait_for_room()
        if self._is_read:
            self._unread += data
            self._connection.count_unread(len(data))
            self._changed.set()

    def end(self) -> None:
        """Mark the client's side as closed."""
        self._ended = True
        self._changed.set()

    def reset(self) -> None:
        """Close both sides, without a word to the client."""
        self._closed = True
        self.end()
        self._discard()
        self._connection.forget(self)

    @property
    def _is_read(self) -> bool:
        return not self._ended and not self._closed

    def _discard(self) -> None:
        self._connection.count_unread(-len(self._unread))
        self._unread.clear()


class Connection:
    """A SPDY connection, with many streams.

    Args:
        transport: carries the frames.
        max_streams: how many the client may have open at a time; further ones are refused.
    """

    def __init__(self, transport: Transport, *, max_streams: int = _MAX_STREAMS) -> None:
        self._transport = transport
        self._max_streams = max_streams
        self._unread = 0
        self._read = asyncio.Event()
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
            for stream in list(self._streams.values()):
                stream.reset()

    async def send_data(self, number: int, data: bytes, flags: int = 0) -> None:
        """Send a data frame."""
        await self._send(_HEAD.pack(number, flags << 24 | len(data)) + data)

    async def go_away(self) -> None:
        """Tell the client that no further stream will be served."""
        await self._send_control(_GOAWAY, struct.pack("!II", self._last, 0))

    def has_room(self, unread: int) -> bool:
        """Return whether a stream with this many unread bytes may buffer more."""
        return unread < _MAX_UNREAD and self._unread < _MAX_UNREAD_OF_ALL

    async def wait_for_room(self) -> None:
        """Wait until some stream has been read."""
        self._read.clear()
        await self._read.wait()

    def count_unread(self, change: int) -> None:
        """Count bytes of a stream that are buffered, or that are no longer."""
        self._unread += change
        if change <= 0:
            self._read.set()

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
                stream = self._streams.get(struct.unpack_from("!I", body)[0])
                if stream is not None:
                    stream.reset()
            elif kind in {_SYN_REPLY, _HEADERS}:
                self._headers(body[4:])  # all blocks are one compressed text
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
        if len(self._streams) >= self._max_streams:
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
