"""Port forwarding over websocket channels, as used by the Python client.

Each port in the query has two channels, one for data and one for errors. The server sends the first
message on each, which is the port number in little-endian order.
"""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING

from aiohttp import WSMsgType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from .forwarding import Forwarder

__all__ = ["serve_channels"]

_CHUNK = 32 * 1024
_QUEUE = 8  # messages


class _Channel:
    """One channel of the websocket as a stream."""

    def __init__(self, socket: web.WebSocketResponse, number: int) -> None:
        self._socket = socket
        self._number = number
        self._received: asyncio.Queue[bytes] = asyncio.Queue(_QUEUE)

    async def read(self) -> bytes:
        return await self._received.get()

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), _CHUNK):
            chunk = data[start : start + _CHUNK]
            await self._socket.send_bytes(bytes([self._number]) + chunk)

    async def close(self) -> None:
        """Do nothing: a channel cannot be closed on its own."""

    async def feed(self, data: bytes) -> None:
        await self._received.put(data)


async def serve_channels(
    socket: web.WebSocketResponse, forwarder: Forwarder, ports: Sequence[int]
) -> None:
    """Forward until the client disconnects."""
    channels = [_Channel(socket, number) for number in range(2 * len(ports))]
    for index, port in enumerate(ports):
        data, error = channels[2 * index : 2 * index + 2]
        for channel in (data, error):
            await channel.write(struct.pack("<H", port))
        forwarder.start(port, data, error)
    async for message in socket:
        if message.type is not WSMsgType.BINARY:
            break
        if len(message.data) > 1 and message.data[0] < len(channels):
            await channels[message.data[0]].feed(message.data[1:])
