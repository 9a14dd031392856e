"""A command's streams over a websocket: the first byte of a message is the channel."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import WSMsgType

from traincrew.local.apiserver.http.messages import offered, open_websocket
from traincrew.local.apiserver.values.codec import encode
from traincrew.local.apiserver.values.errors import bad_request

from .streams import RequestedStreams

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["check_protocols", "run_over_websocket"]

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_V5, _V4, _PLAIN = "v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io"
_PROTOCOLS = (_V5, _V4, _PLAIN)
_MAX_FRAME_BYTES = 32 * 1024
_MAX_INPUT_MESSAGES = 8  # received, and not yet read by the command


class _Channels(RequestedStreams):
    """The streams of a command over one websocket."""

    def __init__(self, socket: web.WebSocketResponse, call: Call) -> None:
        super().__init__(call)
        self._socket = socket
        self._input: asyncio.Queue[bytes] = asyncio.Queue(maxsize=_MAX_INPUT_MESSAGES)
        self._input_ended = not self.stdin
        if self._input_ended:
            self._input.put_nowait(b"")

    async def receive(self) -> None:
        """Receive messages until the client disconnects."""
        async for message in self._socket:
            if message.type is WSMsgType.BINARY:
                data = message.data
            elif message.type is WSMsgType.TEXT:
                data = message.data.encode()
            else:
                break
            if data:
                await self._handle_message(data[0], data[1:])

    async def _handle_message(self, channel: int, data: bytes) -> None:
        if channel == _STDIN and data and not self._input_ended:
            await self._input.put(data)
        elif channel == _CLOSE and data[:1] == bytes([_STDIN]):
            await self._end_input()
        elif channel == _RESIZE:
            self.resize(data)

    async def _end_input(self) -> None:
        if not self._input_ended:
            self._input_ended = True
            await self._input.put(b"")

    async def read_stdin(self) -> bytes:
        data = await self._input.get()
        if not data:
            self._input.put_nowait(b"")  # later reads return the end, too
        return data

    async def write_stdout(self, data: bytes) -> None:
        if self.stdout:
            await self._send(_STDOUT, data)

    async def write_stderr(self, data: bytes) -> None:
        if self.stderr:
            await self._send(_STDERR, data)

    async def _send(self, channel: int, data: bytes) -> None:
        for start in range(0, len(data), _MAX_FRAME_BYTES):
            if self._socket.closed:
                return
            await self._socket.send_bytes(bytes([channel]) + data[start : start + _MAX_FRAME_BYTES])

    async def finish(self, status: Document) -> None:
        """Send the final Status, if the client's protocol supports it."""
        if self._socket.ws_protocol in {_V4, _V5}:
            await self._send(_ERROR, encode(status))


def check_protocols(request: web.BaseRequest) -> None:
    """Check that the client and the server have a protocol in common.

    Raises:
        StatusError: 400 without one.
    """
    wanted = offered(request, "Sec-WebSocket-Protocol")
    if wanted and not set(wanted) & set(_PROTOCOLS):
        known = ", ".join(_PROTOCOLS)
        raise bad_request(f"unsupported websocket protocol {', '.join(wanted)!r}: use {known}")


async def run_over_websocket(
    call: Call, request: web.BaseRequest, run: Callable[[_Channels], Awaitable[Document]]
) -> web.StreamResponse:
    """Open the websocket, run something with its streams and send the resulting Status."""
    socket = await open_websocket(request, *_PROTOCOLS)
    channels = _Channels(socket, call)
    receiving = asyncio.ensure_future(channels.receive())
    running = asyncio.ensure_future(run(channels))
    try:
        await asyncio.wait([receiving, running], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await channels.finish(running.result())
            await socket.close()
    finally:
        for task in (running, receiving):
            task.cancel()
        await asyncio.gather(running, receiving, return_exceptions=True)
    return socket
