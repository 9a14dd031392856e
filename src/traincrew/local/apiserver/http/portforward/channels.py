"""Port forwarding over websocket channels, as used by the Python client.

Each port in the query has two channels, one for data and one for errors. The server sends the first
message on each, which is the port number in little-endian order. A channel has no end of its own:
as a kubelet does, the server closes the websocket once the pod has closed the connections of all
ports (``k8s.io/cri-streaming/pkg/portforward/websocket.go``).
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
        self._closed = asyncio.Event()

    async def read(self) -> bytes:
        return await self._received.get()

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), _CHUNK):
            chunk = data[start : start + _CHUNK]
            await self._socket.send_bytes(bytes([self._number]) + chunk)

    async def close(self) -> None:
        """Discard what the client still sends: nobody reads it, and it must not block others."""
        self._closed.set()
        while not self._received.empty():
            self._received.get_nowait()

    async def feed(self, data: bytes) -> None:
        if not self._closed.is_set():
            await self._received.put(data)


async def serve_channels(
    socket: web.WebSocketResponse, forwarder: Forwarder, ports: Sequence[int]
) -> None:
    """Forward until the client disconnects, or until the pod has closed all connections."""
    channels = [_Channel(socket, number) for number in range(2 * len(ports))]
    forwards = []
    for index, port in enumerate(ports):
        data, error = channels[2 * index : 2 * index + 2]
        for channel in (data, error):
            await channel.write(struct.pack("<H", port))
        forwards.append(forwarder.start(port, data, error))
    receiving = asyncio.create_task(_receive(socket, channels))
    ended = asyncio.ensure_future(asyncio.wait(forwards))
    try:
        await asyncio.wait({receiving, ended}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (receiving, ended):
            task.cancel()
        await asyncio.gather(receiving, ended, return_exceptions=True)
    await socket.close()


async def _receive(socket: web.WebSocketResponse, channels: Sequence[_Channel]) -> None:
    async for message in socket:
        if message.type is not WSMsgType.BINARY:
            break
        if len(message.data) > 1 and message.data[0] < len(channels):
            await channels[message.data[0]].feed(message.data[1:])
