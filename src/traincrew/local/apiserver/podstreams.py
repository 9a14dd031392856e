"""Logs and commands of containers, between the client's connection and the node."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web

from .codec import DecodeError, decode, encode
from .errors import StatusError, bad_request
from .streams import LogOptions, StreamRefusedError
from .watching import Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .dispatch import Dispatcher
    from .registry import ResourceType
    from .requests import Call
    from .streams import NodeBackend

__all__ = ["serve_exec", "serve_log"]

Document = dict[str, Any]

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_V5, _V4, _PLAIN = "v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io"
_LOG_PROTOCOL = "binary.k8s.io"
_FIRST_OUTPUT = 0.25  # seconds to wait for a refusal before the answer begins
_LARGEST_FRAME = 32 * 1024


def _is_websocket(request: web.BaseRequest) -> bool:
    return request.headers.get("Upgrade", "").lower() == "websocket"


def _pod(server: Dispatcher, call: Call, resource: ResourceType) -> Document:
    assert call.target.name is not None
    return server.verbs.find(resource, call.target.namespace, call.target.name).obj


def _node(server: Dispatcher) -> NodeBackend:
    if server.node is None:
        raise StatusError(503, "ServiceUnavailable", "no node serves logs and commands yet")
    return server.node


def _container(pod: Document, wanted: str) -> str:
    """The container meant; the only one when none is named.

    Raises:
        StatusError: 400 naming the choices.
    """
    name, spec = pod["metadata"]["name"], pod["spec"]
    containers = [each["name"] for each in spec["containers"]]
    init = [each["name"] for each in spec.get("initContainers") or ()]
    if wanted:
        if wanted not in (*containers, *init):
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
    server: Dispatcher,
    call: Call,
    resource: ResourceType,
    request: web.BaseRequest,
    stream_limit: int | None,
) -> web.StreamResponse:
    """GET of a container's log, as text or over a websocket.

    Raises:
        StatusError: 400 for a wrong container or no log, 404 without the pod.
    """
    pod = _pod(server, call, resource)
    container = _container(pod, call.text("container"))
    options = _log_options(call)
    if not pod["spec"].get("nodeName"):
        return web.Response(body=b"", content_type="text/plain")
    chunks = _node(server).logs(pod, container, options)
    first: asyncio.Future[bytes | None] = asyncio.ensure_future(_next(chunks))
    try:
        await asyncio.wait([first], timeout=_FIRST_OUTPUT)
        if first.done():
            await first  # a refusal is answered as one
        if _is_websocket(request):
            return await _log_over_websocket(request, first, chunks)
        wire = Wire(request, "text/plain", stream_limit)
        await wire.open()
        while (chunk := await first) is not None:
            await wire.write(chunk)
            first = asyncio.ensure_future(_next(chunks))
    except StreamRefusedError as error:
        raise bad_request(str(error)) from None
    finally:
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError, StreamRefusedError):
            await first
        if (close := getattr(chunks, "aclose", None)) is not None:
            await close()
    return wire.response


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    async for chunk in chunks:
        if chunk:
            return chunk
    return None


async def _log_over_websocket(
    request: web.BaseRequest, first: asyncio.Future[bytes | None], chunks: AsyncIterator[bytes]
) -> web.StreamResponse:
    socket = web.WebSocketResponse(protocols=(_LOG_PROTOCOL,))
    await socket.prepare(request)
    chunk = await first
    while chunk is not None and not socket.closed:
        await socket.send_bytes(chunk)
        chunk = await _next(chunks)
    await socket.close()
    return socket


# -- commands


class _Channels:
    """The client's end of a command, over one websocket; the first byte tells the stream."""

    def __init__(self, socket: web.WebSocketResponse, call: Call) -> None:
        self.tty = bool(call.flag("tty"))
        self._socket = socket
        self._wants_stdout = bool(call.flag("stdout"))
        self._wants_stderr = bool(call.flag("stderr")) and not self.tty
        self._input: asyncio.Queue[bytes] = asyncio.Queue(maxsize=64)
        self._input_ended = not call.flag("stdin")
        self._sizes: asyncio.Queue[tuple[int, int] | None] = asyncio.Queue()
        if self._input_ended:
            self._input.put_nowait(b"")

    async def receive(self) -> None:
        """Take what the client sends, until it goes away."""
        async for message in self._socket:
            if message.type is WSMsgType.BINARY:
                data = message.data
            elif message.type is WSMsgType.TEXT:
                data = message.data.encode()
            else:
                break
            if data:
                await self._take(data[0], data[1:])

    async def _take(self, channel: int, data: bytes) -> None:
        if channel == _STDIN and data and not self._input_ended:
            await self._input.put(data)
        elif channel == _CLOSE and data[:1] == bytes([_STDIN]):
            await self._end_input()
        elif channel == _RESIZE:
            with contextlib.suppress(DecodeError, KeyError, TypeError, ValueError):
                size = decode(data)
                self._sizes.put_nowait((int(size["Width"]), int(size["Height"])))

    async def _end_input(self) -> None:
        if not self._input_ended:
            self._input_ended = True
            await self._input.put(b"")

    async def read_stdin(self) -> bytes:
        data = await self._input.get()
        if not data:
            self._input.put_nowait(b"")  # the end stays the end
        return data

    async def resized(self) -> tuple[int, int] | None:
        return await self._sizes.get()

    async def write_stdout(self, data: bytes) -> None:
        if self._wants_stdout:
            await self._send(_STDOUT, data)

    async def write_stderr(self, data: bytes) -> None:
        if self._wants_stderr:
            await self._send(_STDERR, data)

    async def _send(self, channel: int, data: bytes) -> None:
        for start in range(0, len(data), _LARGEST_FRAME):
            if self._socket.closed:
                return
            await self._socket.send_bytes(bytes([channel]) + data[start : start + _LARGEST_FRAME])

    async def finish(self, status: Document) -> None:
        """Tell how the command ended, if the client's protocol has words for it."""
        if self._socket.ws_protocol in {_V4, _V5}:
            await self._send(_ERROR, encode(status))


def _ended(code: int) -> Document:
    """The Status a command's exit code makes."""
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
    server: Dispatcher,
    call: Call,
    resource: ResourceType,
    request: web.BaseRequest,
    *_: Any,
) -> web.StreamResponse:
    """Run a command in a container, over a websocket.

    Raises:
        StatusError: 400 for a wrong container, no command, or a client that speaks SPDY only.
    """
    pod = _pod(server, call, resource)
    container = _container(pod, call.text("container"))
    command = call.query.get("command", [])
    name = pod["metadata"]["name"]
    if not command:
        raise bad_request("you must specify at least one command for the container")
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {name} does not have a host assigned")
    if not _is_websocket(request):
        raise bad_request(
            "commands are run over websockets here: use kubectl 1.30 or newer, or a client that "
            "offers v5.channel.k8s.io or v4.channel.k8s.io"
        )
    node = _node(server)
    offered = request.headers.get("Sec-WebSocket-Protocol", "")
    known = (_V5, _V4, _PLAIN)
    if offered and not {each.strip() for each in offered.split(",")} & set(known):
        raise bad_request(f"unsupported websocket protocol {offered!r}: use {', '.join(known)}")
    socket = web.WebSocketResponse(protocols=known, max_msg_size=0)
    await socket.prepare(request)
    channels = _Channels(socket, call)
    receiving = asyncio.ensure_future(channels.receive())
    running = asyncio.ensure_future(node.exec(pod, container, command, channels))
    try:
        await asyncio.wait([receiving, running], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            try:
                await channels.finish(_ended(running.result()))
            except StreamRefusedError as error:
                await channels.finish(bad_request(str(error)).status())
            await socket.close()
    finally:
        for task in (running, receiving):
            task.cancel()
        await asyncio.gather(running, receiving, return_exceptions=True)
    return socket
