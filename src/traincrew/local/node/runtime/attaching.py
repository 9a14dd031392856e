"""Attaching of clients to the output and input of a running container."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import TYPE_CHECKING

from traincrew.local.node.sandbox import attach as wire

if TYPE_CHECKING:
    from traincrew.local.apiserver.http.node_backend import ExecStreams
    from traincrew.local.node.runtime.instances import Instance

__all__ = ["attach"]

_CHUNK = 64 * 1024


async def attach(instance: Instance, streams: ExecStreams, *, ends_input: bool) -> None:
    """Copy a container's output and a client's input until either ends.

    Args:
        instance: The running instance.
        streams: The client's streams.
        ends_input: Whether the program's input ends with the client's. If not, the client is
            detached at the end of what it sends, as upstream does.

    Raises:
        OSError: The container has ended, or was started by a version that could not do this.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        with wire.address(str(instance.directory)) as path:
            connection.connect(path)
        connection.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=connection)
    except BaseException:
        connection.close()
        raise
    writer.write(wire.frame(wire.HELLO, b"\1" if streams.stdin else b"\0"))
    # The size first: a command that is typed may query it.
    sizing = asyncio.create_task(_follow_size(writer, streams)) if streams.tty else None
    showing = asyncio.create_task(_show(reader, streams))
    feeding = asyncio.create_task(_feed(writer, streams)) if streams.stdin else None
    try:
        if feeding is not None:
            await asyncio.wait({showing, feeding}, return_when=asyncio.FIRST_COMPLETED)
        if feeding is None or ends_input or showing.done():
            await showing
    finally:
        running = [task for task in (sizing, showing, feeding) if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _show(reader: asyncio.StreamReader, streams: ExecStreams) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readexactly(wire.FRAME.size)
            channel, length = wire.FRAME.unpack(head)
            data = await reader.readexactly(length)
            if channel == wire.OUTPUT:
                await streams.write_stdout(data)
            else:
                await streams.write_stderr(data)


async def _feed(writer: asyncio.StreamWriter, streams: ExecStreams) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await streams.read_stdin():
            for start in range(0, len(data), _CHUNK):
                writer.write(wire.frame(wire.INPUT, data[start : start + _CHUNK]))
            await writer.drain()
        writer.write(wire.frame(wire.INPUT, b""))
        await writer.drain()


async def _follow_size(writer: asyncio.StreamWriter, streams: ExecStreams) -> None:
    with contextlib.suppress(ConnectionError):
        while (size := await streams.resized()) is not None:
            columns, rows = (min(max(number, 0), 0xFFFF) for number in size)
            writer.write(wire.frame(wire.RESIZE, struct.pack("!HH", columns, rows)))
            await writer.drain()
