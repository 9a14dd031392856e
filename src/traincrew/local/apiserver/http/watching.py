"""A watch over HTTP or a websocket: one write for each iteration of the loop, to the socket itself.

A websocket has a text frame for each event, as upstream (``handlers/watch.go``, `HandleWS`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import WSMsgType, web

from traincrew.local.apiserver.reads.convertedwatch import ConvertedWatch
from traincrew.local.apiserver.reads.selection import Selection
from traincrew.local.apiserver.reads.watch import BLOCK, Watch, error_line, watch_options
from traincrew.local.apiserver.requests.conversions import Conversions
from traincrew.local.apiserver.values.errors import StatusError

from . import answers
from .messages import accept_websocket, is_websocket, new_websocket, offered

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.local.apiserver.reads.representation import Representation
    from traincrew.local.apiserver.reads.watch import WatchHub
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.requests.conversions import ConversionNeeded

    from .responder import Responder

__all__ = ["ChunkedResponse", "serve_watch"]


def _nobody() -> None:
    """Do nothing: nobody wants to know."""


class _Connection:
    """The connection of a streamed response."""

    def __init__(self, request: web.BaseRequest, limit: int | None) -> None:
        self._request = request
        self._bytes_left = limit
        self.on_closed: Callable[[], None] = _nobody
        """Called when the client has closed a websocket."""

    def _transport(self) -> asyncio.Transport | None:
        """Return the transport; None once the client has disconnected."""
        transport = self._request.transport
        return None if transport is None or transport.is_closing() else transport

    def waiting(self) -> int:
        """Return the number of bytes in the write buffer."""
        transport = self._transport()
        return 0 if transport is None else transport.get_write_buffer_size()

    def abort(self) -> None:
        """Abort the connection without ending the response."""
        if self._request.transport is not None:
            self._request.transport.abort()

    def _count_sent(self, data: bytes) -> None:
        if self._bytes_left is None:
            return
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            self.abort()


class ChunkedResponse(_Connection):
    """A chunked response whose chunks can be sent from anywhere, without a task.

    Args:
        request: the request.
        content_type: content type of the response.
        limit: bytes after which the connection is cut, for tests of clients.
    """

    def __init__(self, request: web.BaseRequest, content_type: str, limit: int | None) -> None:
        super().__init__(request, limit)
        self.response = web.StreamResponse(
            headers={"Content-Type": content_type, "Cache-Control": "no-cache, private"}
        )

    async def open(self) -> None:
        """Send the headers."""
        await self.response.prepare(self._request)

    async def write(self, data: bytes) -> None:
        """Send a chunk, waiting while the client is slow."""
        self._count_sent(data)
        await self.response.write(data)

    def send(self, data: bytes) -> None:
        """Send a chunk without waiting."""
        transport = self._transport()
        if transport is None:
            return
        self._count_sent(data)
        if self._request.version >= (1, 1):
            transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            transport.write(data)

    async def close(self) -> None:
        """Do nothing: the response ends with its handler."""


class WebsocketEvents(_Connection):
    """A websocket that sends each line as a text frame, and reads nothing.

    Args:
        request: the request.
        limit: bytes after which the connection is cut, for tests of clients.
    """

    def __init__(self, request: web.BaseRequest, limit: int | None) -> None:
        super().__init__(request, limit)
        self._reading: asyncio.Task[None] | None = None
        self.response = new_websocket(*offered(request, "Sec-WebSocket-Protocol"))

    async def open(self) -> None:
        """Accept the websocket.

        Raises:
            StatusError: 400 for a handshake that is not one of RFC 6455.
        """
        await accept_websocket(self.response, self._request)
        self._reading = asyncio.create_task(self._read(), name="watch-websocket")

    async def _read(self) -> None:
        """Answer pings and drop messages until the client closes the websocket."""
        async for _ in self.response:
            pass
        self.on_closed()

    async def write(self, data: bytes) -> None:
        """Send lines, waiting while the client is slow."""
        self._count_sent(data)
        for line in data.splitlines(keepends=True):
            await self.response.send_frame(line, WSMsgType.TEXT)

    def send(self, data: bytes) -> None:
        """Send lines without waiting."""
        transport = self._transport()
        if transport is None:
            return
        self._count_sent(data)
        transport.write(b"".join(map(_text_frame, data.splitlines(keepends=True))))

    async def close(self) -> None:
        """Close the websocket, and end the task that reads it."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
            await self.response.close()


def _text_frame(text: bytes) -> bytes:
    """Encode a text frame as servers send it (RFC 6455, section 5.2): whole and unmasked."""
    size = len(text)
    if size < 126:
        return b"\x81%c%b" % (size, text)
    if size < 1 << 16:
        return b"\x81\x7e%b%b" % (size.to_bytes(2), text)
    return b"\x81\x7f%b%b" % (size.to_bytes(8), text)


async def serve_watch(
    request: web.BaseRequest,
    call: Call,
    resource: ResourceType,
    responder: Responder,
    hub: WatchHub,
    *,
    limit: int | None,
) -> web.StreamResponse:
    """Serve a WATCH until it ends, over a websocket if the client asks for one.

    Args:
        request: the HTTP request.
        call: the parsed request.
        resource: the watched resource.
        responder: negotiates the representation, and calls conversion webhooks.
        hub: the source of the changes.
        limit: see `ChunkedResponse`.

    Raises:
        StatusError: for its options; a revision that is too old is reported in the stream.
    """
    options = watch_options(call, hub.storage.revision)
    representation = responder.representation(call, resource)
    selection = Selection(call, resource)
    connection: ChunkedResponse | WebsocketEvents
    if is_websocket(request):
        connection = WebsocketEvents(request, limit)
    else:
        connection = ChunkedResponse(request, "application/json", limit)
    answers.add_warnings(connection.response, call.warnings)
    if resource.conversion is None:
        watch = Watch(selection, representation, connection)
    else:
        watch = _converted_watch(resource, responder, selection, representation, connection)
    connection.on_closed = watch.end
    try:
        try:
            await watch.begin(hub, resource, options)
        except StatusError as error:
            await connection.open()
            await connection.write(error_line(error))
            return connection.response
        await connection.open()
        block: list[bytes] = []
        size = 0
        for line in watch.initial_lines():
            block.append(line)
            size += len(line)
            if size > BLOCK:
                await connection.write(b"".join(block))
                block, size = [], 0
                await asyncio.sleep(0)
        if block:
            await connection.write(b"".join(block))
        watch.start_sending()
        await watch.wait(options)
        await watch.finish()
    except ConnectionError:
        if not watch.overflowed:
            raise
    finally:
        watch.close()
        await connection.close()
    return connection.response


def _converted_watch(
    resource: ResourceType,
    responder: Responder,
    selection: Selection,
    representation: Representation,
    connection: ChunkedResponse | WebsocketEvents,
) -> Watch:
    """Return a watch of a resource whose objects a webhook converts."""
    conversion = resource.conversion
    assert conversion is not None
    known = Conversions()
    bound = resource.bound(known)

    async def answer(needed: ConversionNeeded) -> None:
        await responder.converter.answer(conversion, needed, known)

    representation = representation.of(bound)
    return ConvertedWatch(
        selection, representation, connection, resource=bound, known=known, answer=answer
    )
