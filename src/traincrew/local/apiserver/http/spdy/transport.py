"""Transports of SPDY frames: the upgraded HTTP connection itself, or a websocket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["UpgradedConnection", "WebSocketTransport"]

# Bytes that may be buffered before the connection is no longer read.
_MAX_BUFFERED = 1 << 20


class _Received:
    """Replaces the HTTP parser of a connection, as aiohttp's websockets do."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._chunks: list[bytes] = []
        self._size = 0
        self._ended = False
        self._paused = False
        self._changed = asyncio.Event()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._chunks.append(bytes(data))
        self._size += len(data)
        self._changed.set()
        if self._size > _MAX_BUFFERED and not self._paused and self._request.transport is not None:
            self._paused = True
            self._request.transport.pause_reading()
        return False, b""

    def feed_eof(self) -> None:
        self._ended = True
        self._changed.set()

    async def read(self) -> bytes:
        while not self._chunks and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if self._paused and self._request.transport is not None:
            self._paused = False
            self._request.transport.resume_reading()
        return data


class UpgradedConnection:
    """An HTTP connection that has been upgraded to another protocol.

    Args:
        request: the upgrade request.
        headers: headers of the response 101.
    """

    def __init__(self, request: web.BaseRequest, headers: Mapping[str, str]) -> None:
        self._request = request
        self._received = _Received(request)
        self.response = web.StreamResponse(status=101, headers=headers)

    async def open(self) -> None:
        """Send the response 101; the connection then belongs to the new protocol."""
        parser: Any = self._received
        self._request.protocol.set_parser(parser)
        self.response.force_close()
        await self.response.prepare(self._request)

    async def read(self) -> bytes:
        """Return the received bytes; ``b""`` at the end."""
        return await self._received.read()

    async def write(self, data: bytes) -> None:
        """Send.

        Raises:
            ConnectionError: the client has disconnected.
        """
        await self.response.write(data)


class WebSocketTransport:
    """A byte stream in the binary messages of a websocket."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        """Return the received bytes; ``b""`` at the end."""
        while True:
            message = await self._socket.receive()
            if message.type is not WSMsgType.BINARY:
                return b""
            if message.data:
                data: bytes = message.data
                return data

    async def write(self, data: bytes) -> None:
        """Send.

        Raises:
            ConnectionError: the client has disconnected.
        """
        await self._socket.send_bytes(data)
