"""The proxy with clients that take too much, and with ports that others have taken."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from local.node.test_service_proxy import ADDRESS, free_port
from traincrew.local.node.network import serviceproxy
from traincrew.local.node.network.serviceproxy import Backend, Listener, Served, ServiceProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DEADLINE = 60.0
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def pod() -> AsyncIterator[Backend]:
    """A pod that sends back what it receives."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(100):
                writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    yield Backend(*server.sockets[0].getsockname())
    server.close()


@asynccontextmanager
async def proxied(pod: Backend, *names: str) -> AsyncIterator[tuple[list[Listener], list[str]]]:
    said: list[str] = []
    proxy = ServiceProxy(lambda served, message: said.append(f"{served.name}: {message}"))
    listeners = [Listener(ADDRESS, free_port()) for _ in names]
    wanted = {
        listener: Served((pod,), "default", name)
        for listener, name in zip(listeners, names, strict=True)
    }
    await proxy.serve(wanted)
    try:
        yield listeners, said
    finally:
        await proxy.close()


async def echoes(connection: Connection) -> bool:
    """Return whether a connection works; it is closed otherwise."""
    reader, writer = connection
    async with asyncio.timeout(DEADLINE):
        try:
            writer.write(b"x")
            return await reader.read(1) == b"x"
        except ConnectionError:
            return False


async def test_a_crowd_at_one_service_leaves_room_for_others(
    pod: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serviceproxy, "LIMITS", serviceproxy.LIMITS._replace(connections=8))
    async with proxied(pod, "crowded", "quiet") as ((crowded, quiet), said):
        crowd = [await asyncio.open_connection(*crowded) for _ in range(20)]
        assert [await echoes(each) for each in crowd] == [True] * 4 + [False] * 16
        other = await asyncio.open_connection(*quiet)
        assert await echoes(other)
        (told,) = said
        assert told.startswith(f"crowded: {crowded.address}:{crowded.port} has 4 open connections,")
        for _, writer in crowd:
            writer.close()
        async with asyncio.timeout(DEADLINE):
            while not await echoes(again := await asyncio.open_connection(*crowded)):
                again[1].close()
        for _, writer in (again, other):
            writer.close()


async def test_idle_connections_are_closed_one_day_late(
    pod: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert serviceproxy.IDLE_SECONDS == 86400
    monkeypatch.setattr(serviceproxy, "IDLE_SECONDS", 0.5)
    async with proxied(pod, "s") as ((listener,), _):
        idle = await asyncio.open_connection(*listener)
        busy = await asyncio.open_connection(*listener)
        async with asyncio.timeout(DEADLINE):
            reading = asyncio.create_task(idle[0].read())
            while not reading.done():
                assert await echoes(busy)
                await asyncio.sleep(0.02)
        assert await echoes(busy)
        for _, writer in (idle, busy):
            writer.close()


async def test_the_memory_of_clients_is_limited(
    pod: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serviceproxy, "_MAX_CLIENTS", 3)
    proxy = ServiceProxy(lambda *_: None)
    listener = Listener(ADDRESS, free_port())
    await proxy.serve({listener: Served((pod,), "default", "s", 60.0)})
    for number in range(1, 9):
        connection = await asyncio.open_connection(
            *listener, local_addr=(f"127.64.255.{number}", 0)
        )
        assert await echoes(connection)
        connection[1].close()
    assert len(proxy._choices[listener]) == 3
    await proxy.close()


async def test_a_taken_port_is_tried_again(pod: Backend) -> None:
    said: list[str] = []
    listener = Listener(ADDRESS, free_port())
    proxy = ServiceProxy(lambda served, message: said.append(f"{served.name}: {message}"))
    with socket.create_server(listener):
        await proxy.serve({listener: Served((pod,), "default", "s")})
        waits: list[float | None] = []
        for _ in range(8):
            waits.append(proxy.retry_seconds)
            await proxy.retry()
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert len(said) == 1
    assert "cannot be served on this machine: " in said[0]
    assert f" (process {os.getpid()} of user {getpass.getuser()}), which answers" in said[0]
    assert "it is tried again until it can" in said[0]
    await proxy.retry()
    assert proxy.retry_seconds is None
    connection = await asyncio.open_connection(*listener)
    assert await echoes(connection)
    connection[1].close()
    await proxy.close()
    await proxy.retry()
