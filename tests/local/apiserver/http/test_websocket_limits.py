"""Websockets of commands, logs and ports: no compression, bounded messages, one terminal size."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from local.apiserver.support import DEADLINE, PODS, Api, pod
from traincrew.local.apiserver.http.node_backend import (
    ExecStreams,
    LogOptions,
    StreamRefusedError,
    Usage,
)

LIMIT = 4 * 1024 * 1024


class Node:
    """A node whose command echoes its input, then waits for a terminal size."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.sizes: list[tuple[int, int] | None] = []

    async def logs(
        self, pod: dict[str, Any], container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        try:
            yield b"line\n"
            await asyncio.Event().wait()
        finally:
            self.closed.set()

    async def exec(
        self, pod: dict[str, Any], container: str, command: list[str], streams: ExecStreams
    ) -> int:
        try:
            while data := await streams.read_stdin():
                await streams.write_stdout(data)
                if data == b"size":
                    self.sizes.append(await streams.resized())
        finally:
            self.closed.set()
        return 0

    async def attach(self, pod: dict[str, Any], container: str, streams: ExecStreams) -> None:
        await self.exec(pod, container, [], streams)

    async def connect(
        self, pod: dict[str, Any], port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise StreamRefusedError("nobody listens here")

    async def usage(self) -> Usage | None:
        return None


@pytest.fixture
async def node(api: Api) -> Node:
    api.server.node = node = Node()
    (await api.post(PODS, pod("p"))).ok(201)
    binding = {"target": {"kind": "Node", "name": "n"}}
    (await api.post(f"{PODS}/p/binding", binding)).ok(201)
    return node


async def opened(
    api: Api, path: str, protocol: str = "v5.channel.k8s.io", compress: int = 0
) -> aiohttp.ClientWebSocketResponse:
    return await api.session.ws_connect(
        f"{api.server.url}{PODS}/p/{path}", protocols=[protocol], compress=compress
    )


EXEC = "exec?command=x&stdin=true&stdout=true&tty=true"


@pytest.mark.parametrize(
    ("path", "protocol"),
    [
        (EXEC, "v5.channel.k8s.io"),
        ("attach?stdin=true&stdout=true", "v4.channel.k8s.io"),
        ("log?follow=true", "binary.k8s.io"),
        ("portforward?ports=80", "v4.channel.k8s.io"),
        ("portforward", "SPDY/3.1+portforward.k8s.io"),
    ],
)
async def test_messages_are_never_compressed(
    api: Api, node: Node, path: str, protocol: str
) -> None:
    socket = await opened(api, path, protocol, compress=15)
    assert socket.compress == 0
    await socket.close()


async def test_who_leaves_a_followed_log_is_answered(api: Api, node: Node) -> None:
    socket = await opened(api, "log?follow=true", "binary.k8s.io")
    async with asyncio.timeout(DEADLINE):
        assert await socket.receive_bytes() == b"line\n"
    await socket.close()
    assert socket.close_code == aiohttp.WSCloseCode.OK
    async with asyncio.timeout(DEADLINE):
        await node.closed.wait()


@pytest.mark.parametrize("path", [EXEC, EXEC.replace("exec", "attach")])
@pytest.mark.parametrize("frames", [1, 40])
async def test_a_large_message_ends_the_connection(
    api: Api, node: Node, path: str, frames: int
) -> None:
    socket = await opened(api, path)
    await socket.send_bytes(b"\0" + bytes(LIMIT - 2))
    async with asyncio.timeout(DEADLINE):
        received = 0
        while received < LIMIT - 2:
            received += len(await socket.receive_bytes()) - 1
    size = 2 * LIMIT // frames
    sent = b""  # the frames of one message, up to the header that makes it too long
    for index in range(LIMIT // size + 1):
        header = bytes([2 if index == 0 else 0, 0x80 | 127]) + size.to_bytes(8, "big")
        sent += header + bytes(4)
        if (index + 1) * size < LIMIT:
            sent += bytes(size)
    socket._writer.transport.write(sent)
    async with asyncio.timeout(DEADLINE):
        message = await socket.receive()
        await node.closed.wait()
    assert message.type in {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED}
    assert socket.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG


async def test_a_command_gets_the_last_of_many_terminal_sizes(api: Api, node: Node) -> None:
    socket = await opened(api, EXEC)
    for width in range(5_000):
        await socket.send_bytes(b'\4{"Width":%d,"Height":24}' % width)
    for spoiled in (b"1e400", b"-1", b"65536", b"true", b"1.5", b'"7"', b"null"):
        await socket.send_bytes(b'\4{"Width":%b,"Height":24}' % spoiled)
    await socket.send_bytes(b"\4" + b"[" * 100_000)
    await socket.send_bytes(b"\0size")
    await socket.send_bytes(b"\0end")
    async with asyncio.timeout(DEADLINE):
        assert await socket.receive_bytes() == b"\1size"
        assert await socket.receive_bytes() == b"\1end"
    assert node.sizes == [(4_999, 24)]
    await socket.close()


@pytest.mark.parametrize("path", [EXEC, "attach", "log?follow=true", "portforward?ports=80"])
@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"Sec-WebSocket-Version": "x"}, "Unsupported version: x"),
        ({"Sec-WebSocket-Key": "short"}, "Handshake error: 'short'"),
    ],
)
async def test_a_malformed_handshake_is_refused(
    api: Api, node: Node, path: str, changed: dict[str, str], reason: str
) -> None:
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": "binary.k8s.io" if "log" in path else "v4.channel.k8s.io",
    }
    answer = await api.get(f"{PODS}/p/{path}", headers=headers | changed)
    assert answer.refused(400, "BadRequest")["message"] == f"unable to upgrade: {reason}"
