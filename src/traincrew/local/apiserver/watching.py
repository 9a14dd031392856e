"""A watch over HTTP: one chunk per turn of the loop, straight to the socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from . import answers
from .errors import StatusError
from .negotiation import negotiate
from .representation import Representation
from .selection import Selection
from .watch import Watch, error_line, watch_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from .registry import ResourceType
    from .requests import Call
    from .watch import WatchHub

__all__ = ["Wire", "serve_watch"]

_BLOCK = 256 * 1024


class Wire:
    """A chunked answer whose chunks are written from anywhere, without a task.

    Args:
        request: to answer.
        content_type: of the answer.
        limit: bytes after which the connection is cut, for tests of clients.
    """

    def __init__(self, request: web.BaseRequest, content_type: str, limit: int | None) -> None:
        self._request = request
        self._left = limit
        self.response = web.StreamResponse(
            headers={"Content-Type": content_type, "Cache-Control": "no-cache, private"}
        )

    async def open(self) -> None:
        """Send the headers."""
        await self.response.prepare(self._request)

    async def write(self, data: bytes) -> None:
        """Send a chunk, waiting while the client is slow."""
        self._spend(data)
        await self.response.write(data)

    def send(self, data: bytes) -> int:
        """Send a chunk at once.

        Returns:
            Bytes that still wait to be taken by the client.
        """
        transport = self._request.transport
        if transport is None or transport.is_closing():
            return 0
        if self._left is not None:
            self._spend(data)
        if self._request.version >= (1, 1):
            transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            transport.write(data)
        return transport.get_write_buffer_size()

    def _spend(self, data: bytes) -> None:
        if self._left is None:
            return
        self._left -= len(data)
        transport = self._request.transport
        if self._left < 0 and transport is not None:
            transport.abort()

    def cut(self) -> None:
        """Close the connection without an end of the answer."""
        if self._request.transport is not None:
            self._request.transport.abort()


async def serve_watch(
    request: web.BaseRequest,
    call: Call,
    resource: ResourceType,
    hub: WatchHub,
    *,
    clock: Callable[[], float],
    limit: int | None,
) -> web.StreamResponse:
    """Answer a WATCH until it ends.

    Args:
        request: to answer.
        call: what it asks for.
        resource: what is watched.
        hub: where the changes come from.
        clock: seconds since the epoch.
        limit: see `Wire`.

    Raises:
        StatusError: for its options; a revision that is too old is told within the stream.
    """
    options = watch_options(call, hub.storage.revision)
    representation = Representation(
        resource, negotiate(call.accept), call.text("includeObject"), clock
    )
    selection = Selection(call, resource)
    wire = Wire(request, "application/json", limit)
    answers.add_warnings(wire.response, call.warnings)
    watch = Watch(selection, representation, wire.send)
    try:
        try:
            await watch.begin(hub, resource, options)
        except StatusError as error:
            await wire.open()
            await wire.write(error_line(error))
            return wire.response
        await wire.open()
        block: list[bytes] = []
        size = 0
        for line in watch.initial_lines():
            block.append(line)
            size += len(line)
            if size > _BLOCK:
                await wire.write(b"".join(block))
                block, size = [], 0
        if block:
            await wire.write(b"".join(block))
        watch.go()
        await watch.wait(options)
    finally:
        watch.close()
    if watch.overflowed:
        wire.cut()
    return wire.response
