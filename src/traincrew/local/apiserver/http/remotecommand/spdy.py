"""A command's streams over SPDY/3.1, which the client opens one by one.

The header ``streamType`` of a stream names it: ``error``, ``stdin``, ``stdout``, ``stderr`` or
``resize``. The protocols are versions 2 to 4 of upstream's ``remotecommand``: the third has sizes
of terminals, the fourth sends the final Status as JSON. (The first does not pass on the end of
input; the fifth is for websockets only.)
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from traincrew.local.apiserver.http.spdy import (
    Connection,
    UpgradedConnection,
    negotiate,
)
from traincrew.local.apiserver.values.codec import encode

from .streams import RequestedStreams

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from traincrew.local.apiserver.http.spdy import Stream
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["run_over_spdy"]

_V2, _V3, _V4 = "v2.channel.k8s.io", "v3.channel.k8s.io", "v4.channel.k8s.io"
_PROTOCOLS = (_V4, _V3, _V2)
# As upstream: the client has this many seconds to open all of its streams.
_OPENING_SECONDS = 30.0
# The client closes the connection when it has read the end of every stream. A close with unread
# input would discard what it has not read yet, so the server waits for it, this many seconds.
_CLOSING_SECONDS = 5.0
_MAX_STREAMS = 16
_MAX_SIZES = 4  # of a terminal, looked at in what came at once; the last one counts


class _Streams(RequestedStreams):
    """The streams of a command over one SPDY connection."""

    def __init__(self, call: Call, protocol: str) -> None:
        super().__init__(call)
        self._protocol = protocol
        self._missing = {"error"}
        for name, wanted in (
            ("stdin", self.stdin),
            ("stdout", self.stdout),
            ("stderr", self.stderr),
            ("resize", self.tty and protocol != _V2),
        ):
            if wanted:
                self._missing.add(name)
        self._open: dict[str, Stream] = {}
        self.complete = asyncio.Event()

    async def accept(self, stream: Stream) -> None:
        """Accept a new stream; close one that was not asked for."""
        name = stream.headers.get("streamtype", "")
        if name not in self._missing:
            await stream.close()
            return
        self._missing.remove(name)
        self._open[name] = stream
        if not self._missing:
            self.complete.set()

    async def read_stdin(self) -> bytes:
        return await self._open["stdin"].read() if self.stdin else b""

    async def write_stdout(self, data: bytes) -> None:
        if self.stdout:
            await self._open["stdout"].write(data)

    async def write_stderr(self, data: bytes) -> None:
        if self.stderr:
            await self._open["stderr"].write(data)

    async def follow_size(self) -> None:
        """Take the sizes of the terminal from their stream, JSON objects one after the other."""
        rest = b""
        while (stream := self._open.get("resize")) and (data := await stream.read()):
            *sizes, rest = (rest + data).rsplit(b"}", _MAX_SIZES)
            for size in sizes:
                self.resize(size[size.rfind(b"{") :] + b"}")
            rest = rest[-_MAX_SIZES * 1024 :]

    async def finish(self, status: Document) -> None:
        """Send the final Status, and the end of every stream."""
        if self._protocol == _V4:
            await self._open["error"].write(encode(status))
        elif status["status"] != "Success":
            await self._open["error"].write(status["message"].encode())
        for stream in self._open.values():
            await stream.close()


async def run_over_spdy(
    call: Call, request: web.BaseRequest, run: Callable[[_Streams], Awaitable[Document]]
) -> web.StreamResponse:
    """Upgrade to SPDY, run something with the client's streams and send the resulting Status.

    Raises:
        StatusError: 400 for a client that names no protocol, 403 without a common one.
    """
    protocol, headers = negotiate(request, _PROTOCOLS)
    upgraded = UpgradedConnection(request, headers)
    await upgraded.open()
    connection = Connection(upgraded, max_streams=_MAX_STREAMS)
    streams = _Streams(call, protocol)
    receiving = asyncio.ensure_future(connection.serve(streams.accept))
    running = asyncio.ensure_future(_run(streams, run))
    try:
        await asyncio.wait([receiving, running], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            with contextlib.suppress(ConnectionError, TimeoutError):
                await streams.finish(running.result())
                await connection.go_away()
                await asyncio.wait([receiving], timeout=_CLOSING_SECONDS)
    finally:
        for task in (running, receiving):
            task.cancel()
        await asyncio.gather(running, receiving, return_exceptions=True)
    return upgraded.response


async def _run(streams: _Streams, run: Callable[[_Streams], Awaitable[Document]]) -> Document:
    """Run something once all streams are there.

    Raises:
        TimeoutError: they were not in time.
    """
    async with asyncio.timeout(_OPENING_SECONDS):
        await streams.complete.wait()
    sizes = asyncio.ensure_future(streams.follow_size())
    try:
        return await run(streams)
    finally:
        sizes.cancel()
        await asyncio.gather(sizes, return_exceptions=True)
