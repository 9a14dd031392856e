"""Connections between a client's streams and ports of a pod."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Protocol

from traincrew.local.apiserver.http.node_backend import StreamRefusedError

if TYPE_CHECKING:
    from traincrew.local.apiserver.http.node_backend import NodeBackend
    from traincrew.local.apiserver.http.spdy import Stream
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["Forwarder", "PairedStreams", "connect_error"]

_CHUNK = 64 * 1024
# As upstream: a data stream without its error stream is closed after this many seconds.
_PAIR_SECONDS = 30.0
# Limits of a client: streams without the other one of their pair, and connections to the pod, whose
# programs may keep them when the client has closed its streams.
_MAX_WAITING = 1024
_MAX_CONNECTIONS = 1024


class ByteStream(Protocol):
    """A bidirectional stream; each direction is closed separately."""

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None: ...


def connect_error(pod: Document, port: int, error: Exception) -> str:
    """Return why a port cannot be reached, in the kubelet's words."""
    return f"error forwarding port {port} to pod {pod['metadata']['uid']}, uid : {error}"


class Forwarder:
    """Connects streams to a pod; `close` ends the connections.

    Args:
        node: the node of the pod.
        pod: the stored pod.
    """

    def __init__(self, node: NodeBackend, pod: Document) -> None:
        self._node = node
        self._pod = pod
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, port: int, data: ByteStream, error: ByteStream) -> asyncio.Task[None]:
        """Connect a pair of streams to a port of the pod; close both when it ends.

        Returns:
            What ends with the connection.
        """
        task = asyncio.create_task(self._forward(port, data, error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def count(self) -> int:
        """The number of connections."""
        return len(self._tasks)

    async def close(self) -> None:
        """End all connections."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forward(self, port: int, data: ByteStream, error: ByteStream) -> None:
        # A client that disconnects meanwhile ends the whole connection anyway.
        with contextlib.suppress(ConnectionError):
            try:
                reader, writer = await self._node.connect(self._pod, port)
            except StreamRefusedError as refused:
                await error.write(connect_error(self._pod, port, refused).encode())
            else:
                try:
                    await _exchange(reader, writer, data)
                finally:
                    writer.close()
            await data.close()
            await error.close()


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: ByteStream
) -> None:
    """Copy in both directions until the pod closes; the client's end of data is passed on."""

    async def to_pod() -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await data.read():
                writer.write(chunk)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

    sending = asyncio.create_task(to_pod())
    try:
        while True:
            try:
                chunk = await reader.read(_CHUNK)
            except ConnectionError:
                return
            if not chunk:
                return
            await data.write(chunk)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


class _Pair:
    """Streams that wait for the other one of their pair, and what ends their time."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}
        self.expiry: asyncio.TimerHandle | None = None

    def forget_expiry(self) -> None:
        if self.expiry is not None:
            self.expiry.cancel()


class PairedStreams:
    """Pairs the two streams of a connection: clients open one for errors and one for data.

    Args:
        forwarder: receives the pairs.
    """

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self._waiting: dict[str, _Pair] = {}

    async def accept(self, stream: Stream) -> None:
        """Accept a new stream; close invalid ones, and those beyond the limits."""
        headers = stream.headers
        kind, port = headers.get("streamtype", ""), headers.get("port", "")
        if kind not in {"data", "error"} or not (port.isdecimal() and 0 < int(port) < 65536):
            await stream.close()
            return
        # Clients older than 1.4 send no request ID, but open the error stream first.
        first = stream.number if kind == "error" else stream.number - 2
        request = headers.get("requestid") or str(first)
        pair = self._waiting.get(request)
        if pair is None:
            if self._is_full():
                await stream.close()
                return
            pair = self._waiting[request] = _Pair()
            loop = asyncio.get_running_loop()
            pair.expiry = loop.call_later(_PAIR_SECONDS, self._expire, request)
        if kind in pair.streams:
            await stream.close()
            return
        pair.streams[kind] = stream
        if len(pair.streams) == 2:
            pair.forget_expiry()
            del self._waiting[request]
            self._forwarder.start(int(port), pair.streams["data"], pair.streams["error"])

    def close(self) -> None:
        """Wait for no further streams."""
        for pair in self._waiting.values():
            pair.forget_expiry()

    def _is_full(self) -> bool:
        if len(self._waiting) < _MAX_WAITING and self._forwarder.count < _MAX_CONNECTIONS:
            return False
        for request, pair in list(self._waiting.items()):
            if all(stream.is_closed for stream in pair.streams.values()):
                self._expire(request)  # the client has reset it
        return len(self._waiting) >= _MAX_WAITING or self._forwarder.count >= _MAX_CONNECTIONS

    def _expire(self, request: str) -> None:
        pair = self._waiting.pop(request)
        pair.forget_expiry()
        for stream in pair.streams.values():
            stream.reset()
