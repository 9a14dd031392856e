"""The proxy listens on addresses of Services until it is closed, also during an update."""

from __future__ import annotations

import asyncio
import socket

from traincrew.local.node.network.serviceproxy import Backend, Listener, Served, ServiceProxy

ADDRESS = "127.64.255.254"


def free_port() -> int:
    with socket.socket() as found:
        found.bind((ADDRESS, 0))
        return int(found.getsockname()[1])


def is_free(listener: Listener) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(listener) != 0


async def test_a_closed_proxy_does_not_listen() -> None:
    listener = Listener(ADDRESS, free_port())
    wanted = {listener: Served((Backend("127.0.0.1", 1),), "default", "s")}
    proxy = ServiceProxy(lambda *_: None)
    await proxy.serve(wanted)
    assert not is_free(listener)
    await proxy.close()
    assert is_free(listener)
    await proxy.serve(wanted)
    assert is_free(listener)


async def answers(listener: Listener, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection(*listener)
        found.append(await reader.read())
        writer.close()
    return found


async def test_session_affinity() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(str(writer.get_extra_info("sockname")[1]).encode())
        writer.close()

    pods = [await asyncio.start_server(answer, "127.0.0.1", 0) for _ in range(3)]
    backends = tuple(Backend(*pod.sockets[0].getsockname()) for pod in pods)
    listener = Listener(ADDRESS, free_port())
    proxy = ServiceProxy(lambda *_: None)
    try:
        await proxy.serve({listener: Served(backends, "default", "s")})
        assert len(set(await answers(listener, 6))) == 3

        await proxy.serve({listener: Served(backends, "default", "s", 60.0)})
        (first,) = set(await answers(listener, 6))

        left = tuple(each for each in backends if str(each.port).encode() != first)
        await proxy.serve({listener: Served(left, "default", "s", 60.0)})
        (second,) = set(await answers(listener, 6))
        assert second != first

        await proxy.serve({listener: Served(left, "default", "s", 1e-9)})
        assert len(set(await answers(listener, 6))) == 2
    finally:
        await proxy.close()
        for pod in pods:
            pod.close()


async def test_no_socket_leaks_when_serving_is_cancelled() -> None:
    for steps in range(8):
        listener = Listener(ADDRESS, free_port())
        wanted = {listener: Served((), "default", "s")}
        proxy = ServiceProxy(lambda *_: None)
        serving = asyncio.create_task(proxy.serve(wanted))
        for _ in range(steps):
            await asyncio.sleep(0)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await proxy.close()
        assert is_free(listener), steps
