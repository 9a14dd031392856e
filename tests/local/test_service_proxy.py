"""Addresses of Services are listened on until the proxy is closed, whatever is under way then."""

from __future__ import annotations

import asyncio
import socket

from traincrew.local.node.serviceproxy import Backend, Listener, Served, ServiceProxy

ADDRESS = "127.64.255.254"


def free_port() -> int:
    with socket.socket() as found:
        found.bind((ADDRESS, 0))
        return int(found.getsockname()[1])


def is_free(listener: Listener) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(listener) != 0


async def test_a_proxy_that_is_closed_listens_on_nothing() -> None:
    listener = Listener(ADDRESS, free_port())
    wanted = {listener: Served((Backend("127.0.0.1", 1),), "default", "s")}
    proxy = ServiceProxy(lambda *_: None)
    await proxy.serve(wanted)
    assert not is_free(listener)
    await proxy.close()
    assert is_free(listener)
    await proxy.serve(wanted)
    assert is_free(listener)


async def test_nothing_is_left_listening_when_serving_is_cancelled() -> None:
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
