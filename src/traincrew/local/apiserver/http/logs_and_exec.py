"""Logs, exec and attach: streams between a client and the node."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web

from traincrew.local.apiserver.values import times
from traincrew.local.apiserver.values.codec import DecodeError, decode, encode
from traincrew.local.apiserver.values.errors import StatusError, bad_request

from .messages import open_websocket
from .node_backend import LogOptions, StreamRefusedError
from .watching import ChunkedResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.values.documents import Document

    from .node_backend import NodeBackend
    from .responder import Responder

__all__ = ["is_websocket", "node_of", "pod_of", "serve_attach", "serve_exec", "serve_log"]

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_V5, _V4, _PLAIN = "v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io"
_PROTOCOLS = (_V5, _V4, _PLAIN)
_LOG_PROTOCOL = "binary.k8s.io"
_FIRST_OUTPUT_SECONDS = 0.25  # to wait for an error before the response begins
_MAX_FRAME_BYTES = 32 * 1024
_MAX_INPUT_MESSAGES = 8  # received, and not yet read by the command


def is_websocket(request: web.BaseRequest) -> bool:
    """Return whether a request asks for a websocket."""
    return request.headers.get("Upgrade", "").lower() == "websocket"


def pod_of(responder: Responder, call: Call, resource: ResourceType) -> Document:
    """Return the pod that a path names.

    Raises:
        StatusError: 404 without it.
    """
    assert call.target.name is not None
    return responder.verbs.find(resource, call.target.namespace, call.target.name).obj


def node_of(responder: Responder) -> NodeBackend:
    """Return the node backend.

    Raises:
        StatusError: 503 before it is set.
    """
    if responder.node is None:
        raise StatusError(503, "ServiceUnavailable", "no node serves logs and commands yet")
    return responder.node


def _container(pod: Document, wanted: str) -> str:
    """Return the requested container; the only one when the request names none.

    Raises:
        StatusError: 400 naming the choices.
    """
    name, spec = pod["metadata"]["name"], pod["spec"]
    containers = [each["name"] for each in spec["containers"]]
    init = [each["name"] for each in spec.get("initContainers") or ()]
    if wanted:
        ephemeral = [each["name"] for each in spec.get("ephemeralContainers") or ()]
        if wanted not in (*containers, *init, *ephemeral):
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(containers) == 1:
        return str(containers[0])
    text = (
        f"a container name must be specified for pod {name}, "
        f"choose one of: [{' '.join(containers)}]"
    )
    if init:
        text += f" or one of the init containers: [{' '.join(init)}]"
    raise bad_request(text)


# -- logs


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
    container = _container(pod, call.text("container"))
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
    socket = await open_websocket(request, _LOG_PROTOCOL)
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


# -- exec and attach


class _Channels:
    """The streams of a command over one websocket; the first byte of a message is the channel."""

    def __init__(self, socket: web.WebSocketResponse, call: Call) -> None:
        self.tty = bool(call.flag("tty"))
        self.stdin = bool(call.flag("stdin"))
        self._socket = socket
        self._wants_stdout = bool(call.flag("stdout"))
        self._wants_stderr = bool(call.flag("stderr")) and not self.tty
        self._input: asyncio.Queue[bytes] = asyncio.Queue(maxsize=_MAX_INPUT_MESSAGES)
        self._input_ended = not self.stdin
        self._size: tuple[int, int] | None = None  # the last one that nobody has read
        self._resized = asyncio.Event()
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
            size = _terminal_size(data)
            if size is not None:
                self._size = size
                self._resized.set()

    async def _end_input(self) -> None:
        if not self._input_ended:
            self._input_ended = True
            await self._input.put(b"")

    async def read_stdin(self) -> bytes:
        data = await self._input.get()
        if not data:
            self._input.put_nowait(b"")  # later reads return the end, too
        return data

    async def resized(self) -> tuple[int, int] | None:
        await self._resized.wait()
        self._resized.clear()
        return self._size

    async def write_stdout(self, data: bytes) -> None:
        if self._wants_stdout:
            await self._send(_STDOUT, data)

    async def write_stderr(self, data: bytes) -> None:
        if self._wants_stderr:
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


def _terminal_size(data: bytes) -> tuple[int, int] | None:
    """Return columns and rows; None for anything that is no size."""
    if len(data) > _MAX_SIZE_BYTES:
        return None
    try:
        size = decode(data)
    except DecodeError:
        return None
    if type(size) is not dict:
        return None
    columns, rows = size.get("Width"), size.get("Height")
    if type(columns) is int and type(rows) is int and columns in _CELLS and rows in _CELLS:
        return columns, rows
    return None


_CELLS = range(1 << 16)
_MAX_SIZE_BYTES = 1024


def _exit_status(code: int) -> Document:
    """Return the Status for a command's exit code."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def serve_exec(
    responder: Responder,
    call: Call,
    resource: ResourceType,
    request: web.BaseRequest,
    *_: Any,
) -> web.StreamResponse:
    """Run a command in a container, over a websocket.

    Raises:
        StatusError: 400 for an unknown container, no command, or a client that supports SPDY only.
    """
    pod = pod_of(responder, call, resource)
    container = _container(pod, call.text("container"))
    command = call.query.get("command", [])
    if not command:
        raise bad_request("you must specify at least one command for the container")
    node = _node_for_command(responder, pod, request)

    async def run(channels: _Channels) -> Document:
        return _exit_status(await node.exec(pod, container, command, channels))

    return await _run_over_websocket(call, request, run)


async def serve_attach(
    responder: Responder,
    call: Call,
    resource: ResourceType,
    request: web.BaseRequest,
    *_: Any,
) -> web.StreamResponse:
    """Attach a client to a container's main process, over a websocket.

    Raises:
        StatusError: 400 for an unknown container, or a client that supports SPDY only.
    """
    pod = pod_of(responder, call, resource)
    container = _container(pod, call.text("container"))
    node = _node_for_command(responder, pod, request)

    async def run(channels: _Channels) -> Document:
        await node.attach(pod, container, channels)
        return _exit_status(0)

    return await _run_over_websocket(call, request, run)


def _node_for_command(responder: Responder, pod: Document, request: web.BaseRequest) -> NodeBackend:
    """Return the node backend, after checking that the pod is bound and the client's protocol.

    Raises:
        StatusError: 400 when the pod has no node, or for an unsupported protocol.
    """
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    if not is_websocket(request):
        raise bad_request(
            "commands are run over websockets here: use kubectl 1.30 or newer, or a client that "
            "offers v5.channel.k8s.io or v4.channel.k8s.io"
        )
    offered = request.headers.get("Sec-WebSocket-Protocol", "")
    if offered and not {each.strip() for each in offered.split(",")} & set(_PROTOCOLS):
        known = ", ".join(_PROTOCOLS)
        raise bad_request(f"unsupported websocket protocol {offered!r}: use {known}")
    return node_of(responder)


async def _run_over_websocket(
    call: Call, request: web.BaseRequest, run: Callable[[_Channels], Awaitable[Document]]
) -> web.StreamResponse:
    """Open the websocket, run something with its channels and send the resulting Status."""
    socket = await open_websocket(request, *_PROTOCOLS)
    channels = _Channels(socket, call)
    receiving = asyncio.ensure_future(channels.receive())
    running = asyncio.ensure_future(run(channels))
    try:
        await asyncio.wait([receiving, running], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            try:
                await channels.finish(running.result())
            except StreamRefusedError as error:
                await channels.finish(bad_request(str(error)).status())
            await socket.close()
    finally:
        for task in (running, receiving):
            task.cancel()
        await asyncio.gather(running, receiving, return_exceptions=True)
    return socket
