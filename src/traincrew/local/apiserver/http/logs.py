"""Logs of containers, as text or over a websocket."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from aiohttp import web

from traincrew.local.apiserver.values import times
from traincrew.local.apiserver.values.errors import StatusError, bad_request

from .messages import is_websocket, open_websocket
from .node_backend import LogOptions, StreamRefusedError
from .pods import container_of, node_of, pod_of
from .watching import ChunkedResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call

    from .responder import Responder

__all__ = ["serve_log"]

_PROTOCOL = "binary.k8s.io"
_FIRST_OUTPUT_SECONDS = 0.25  # to wait for an error before the response begins


def _log_options(call: Call) -> LogOptions:
    options = LogOptions(
        follow=bool(call.flag("follow")),
        tail_lines=call.number("tailLines"),
        since_seconds=call.number("sinceSeconds"),
        since_time=call.text("sinceTime") or None,
        timestamps=bool(call.flag("timestamps")),
        limit_bytes=call.number("limitBytes"),
        previous=bool(call.flag("previous")),
    )
    if options.since_time and (fault := times.fault(options.since_time)):
        raise bad_request(fault)
    problem = ""
    if options.tail_lines is not None and options.tail_lines < 0:
        problem = "tailLines: must be greater than or equal to 0"
    elif options.limit_bytes is not None and options.limit_bytes < 1:
        problem = "limitBytes: must be greater than 0"
    elif options.since_seconds is not None and options.since_seconds < 1:
        problem = "sinceSeconds: must be greater than 0"
    elif options.since_seconds is not None and options.since_time is not None:
        problem = "at most one of sinceTime or sinceSeconds may be specified"
    if problem:
        raise StatusError(422, "Invalid", f'PodLogOptions "" is invalid: {problem}')
    return options


async def serve_log(
    responder: Responder,
    call: Call,
    resource: ResourceType,
    request: web.BaseRequest,
    stream_limit: int | None,
) -> web.StreamResponse:
    """Handle a GET of a container's log, as text or over a websocket.

    Raises:
        StatusError: 400 for an unknown container or a missing log, 404 without the pod.
    """
    pod = pod_of(responder, call, resource)
    container = container_of(pod, call.text("container"))
    options = _log_options(call)
    if not pod["spec"].get("nodeName"):
        return web.Response(body=b"", content_type="text/plain")
    chunks = node_of(responder).logs(pod, container, options)
    first: asyncio.Future[bytes | None] = asyncio.ensure_future(_next_chunk(chunks))
    try:
        await asyncio.wait([first], timeout=_FIRST_OUTPUT_SECONDS)
        if first.done():
            await first  # an error is sent as a Status
        if is_websocket(request):
            return await _log_over_websocket(request, first, chunks)
        chunked = ChunkedResponse(request, "text/plain", stream_limit)
        await chunked.open()
        while (chunk := await first) is not None:
            await chunked.write(chunk)
            first = asyncio.ensure_future(_next_chunk(chunks))
    except StreamRefusedError as error:
        raise bad_request(str(error)) from None
    finally:
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError, StreamRefusedError):
            await first
        if (close := getattr(chunks, "aclose", None)) is not None:
            await close()
    return chunked.response


async def _next_chunk(chunks: AsyncIterator[bytes]) -> bytes | None:
    async for chunk in chunks:
        if chunk:
            return chunk
    return None


async def _log_over_websocket(
    request: web.BaseRequest, first: asyncio.Future[bytes | None], chunks: AsyncIterator[bytes]
) -> web.StreamResponse:
    socket = await open_websocket(request, _PROTOCOL)
    left = asyncio.ensure_future(_until_left(socket))
    chunk = first
    try:
        while True:
            either: set[asyncio.Future[Any]] = {chunk, left}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if left.done() or (data := await chunk) is None:
                break
            await socket.send_bytes(data)
            chunk = asyncio.ensure_future(_next_chunk(chunks))
    finally:
        chunk.cancel()
        left.cancel()
        await asyncio.gather(chunk, left, return_exceptions=True)
    await socket.close()
    return socket


async def _until_left(socket: web.WebSocketResponse) -> None:
    """Receive until the client closes the websocket, which is answered; it has nothing to say."""
    async for _ in socket:
        pass
