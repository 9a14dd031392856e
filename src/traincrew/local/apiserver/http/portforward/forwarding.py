"""Connections between a client's streams and ports of a pod."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Protocol

from traincrew.local.apiserver.http.node_backend import StreamRefusedError

if TYPE_CHECKING:
    from traincrew.local.apiserver.http.node_backend import NodeBackend
    from traincrew.local.apiserver.values.documents import Document

    from .spdy import Stream

__all__ = ["Forwarder", "PairedStreams", "connect_error"]

_CHUNK = 64 * 1024
# As upstream: a data stream without its error stream is closed after this many seconds.
_PAIR_SECONDS = 30.0


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


class PairedStreams:
    """Pairs the two streams of a connection: clients open one for errors and one for data.

    Args:
        forwarder: receives the pairs.
    """

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self._waiting: dict[str, dict[str, Stream]] = {}

    async def accept(self, stream: Stream) -> None:
        """Accept a new stream; close invalid ones."""
        headers = stream.headers
        kind, port = headers.get("streamtype", ""), headers.get("port", "")
        if kind not in {"data", "error"} or not (port.isdecimal() and 0 < int(port) < 65536):
            await stream.close()
            return
        # Clients older than 1.4 send no request ID, but open the error stream first.
        first = stream.number if kind == "error" else stream.number - 2
        request = headers.get("requestid") or str(first)
        pair = self._waiting.setdefault(request, {})
        if kind in pair:
            await stream.close()
            return
        pair[kind] = stream
        if len(pair) == 2:
            del self._waiting[request]
            self._forwarder.start(int(port), pair["data"], pair["error"])
        else:
            loop = asyncio.get_running_loop()
            loop.call_later(_PAIR_SECONDS, self._expire, request, pair)

    def _expire(self, request: str, pair: dict[str, Stream]) -> None:
        if self._waiting.get(request) is pair:
            del self._waiting[request]
            for stream in pair.values():
                stream.end()
