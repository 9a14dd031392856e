"""A watch over HTTP: one chunk for each iteration of the loop, straight to the socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from traincrew.local.apiserver.reads.convertedwatch import ConvertedWatch
from traincrew.local.apiserver.reads.selection import Selection
from traincrew.local.apiserver.reads.watch import BLOCK, Watch, error_line, watch_options
from traincrew.local.apiserver.requests.conversions import Conversions
from traincrew.local.apiserver.values.errors import StatusError

from . import answers

if TYPE_CHECKING:
    from traincrew.local.apiserver.reads.representation import Representation
    from traincrew.local.apiserver.reads.watch import WatchHub
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.requests.conversions import ConversionNeeded

    from .responder import Responder

__all__ = ["ChunkedResponse", "serve_watch"]


class ChunkedResponse:
    """A chunked response whose chunks can be sent from anywhere, without a task.

    Args:
        request: the request.
        content_type: content type of the response.
        limit: bytes after which the connection is cut, for tests of clients.
    """

    def __init__(self, request: web.BaseRequest, content_type: str, limit: int | None) -> None:
        self._request = request
        self._bytes_left = limit
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
        transport = self._request.transport
        if transport is None or transport.is_closing():
            return
        if self._bytes_left is not None:
            self._count_sent(data)
        if self._request.version >= (1, 1):
            transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            transport.write(data)

    def waiting(self) -> int:
        """Return the number of bytes in the write buffer."""
        transport = self._request.transport
        if transport is None or transport.is_closing():
            return 0
        return transport.get_write_buffer_size()

    def _count_sent(self, data: bytes) -> None:
        if self._bytes_left is None:
            return
        self._bytes_left -= len(data)
        transport = self._request.transport
        if self._bytes_left < 0 and transport is not None:
            transport.abort()

    def abort(self) -> None:
        """Abort the connection without ending the response."""
        if self._request.transport is not None:
            self._request.transport.abort()


async def serve_watch(
    request: web.BaseRequest,
    call: Call,
    resource: ResourceType,
    responder: Responder,
    hub: WatchHub,
    *,
    limit: int | None,
) -> web.StreamResponse:
    """Serve a WATCH until it ends.

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
    chunked = ChunkedResponse(request, "application/json", limit)
    answers.add_warnings(chunked.response, call.warnings)
    if resource.conversion is None:
        watch = Watch(selection, representation, chunked)
    else:
        watch = _converted_watch(resource, responder, selection, representation, chunked)
    try:
        try:
            await watch.begin(hub, resource, options)
        except StatusError as error:
            await chunked.open()
            await chunked.write(error_line(error))
            return chunked.response
        await chunked.open()
        block: list[bytes] = []
        size = 0
        for line in watch.initial_lines():
            block.append(line)
            size += len(line)
            if size > BLOCK:
                await chunked.write(b"".join(block))
                block, size = [], 0
                await asyncio.sleep(0)
        if block:
            await chunked.write(b"".join(block))
        watch.start_sending()
        await watch.wait(options)
        await watch.finish()
    except ConnectionError:
        if not watch.overflowed:
            raise
    finally:
        watch.close()
    return chunked.response


def _converted_watch(
    resource: ResourceType,
    responder: Responder,
    selection: Selection,
    representation: Representation,
    chunked: ChunkedResponse,
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
        selection, representation, chunked, resource=bound, known=known, answer=answer
    )
