"""Connections to ports of pods, for port forwarding."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from traincrew.local.apiserver.http.node_backend import StreamRefusedError
from traincrew.local.node.backend import Backend
from traincrew.local.node.machine.paths import Paths
from traincrew.local.node.runtime.instances import Instance, Launch
from traincrew.local.node.runtime.processes import OwnPorts
from traincrew.local.node.runtime.usage import UsageMeter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ADDRESS = "127.42.99.1"


def pod(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Running", "podIP": ADDRESS, **status},
    }


class Listener:
    """Listens on both addresses with one port, and reports which one was reached."""

    def __init__(self) -> None:
        self.servers: dict[str, asyncio.Server] = {}
        self.port = 0

    async def listen(self, address: str) -> None:
        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(address.encode())
            writer.close()

        server = await asyncio.start_server(serve, address, self.port)
        self.port = server.sockets[0].getsockname()[1]
        self.servers[address] = server

    def close(self) -> None:
        for server in self.servers.values():
            server.close()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path, tmp_path / "memory")


@pytest.fixture
def backend(paths: Paths) -> Backend:
    def no_fork_server() -> Any:
        raise AssertionError

    return Backend(paths, no_fork_server, UsageMeter())


async def reached(backend: Backend, port: int) -> str:
    reader, writer = await backend.connect(pod(), port)
    text = (await reader.read()).decode()
    writer.close()
    return text


def launched(paths: Paths, ports: list[int] | None) -> None:
    """Start a container of the pod with ports of its own."""
    instance = Instance(paths.containers("u") / "main" / "0")
    instance.create(Launch(environment={}, own_ports=OwnPorts(ADDRESS, ports)))
    instance.log.touch()


async def test_the_pods_address_comes_first(backend: Backend, listener: Listener) -> None:
    await listener.listen(ADDRESS)
    await listener.listen("127.0.0.1")
    assert await reached(backend, listener.port) == ADDRESS


async def test_programs_on_localhost_are_found(backend: Backend, listener: Listener) -> None:
    await listener.listen("127.0.0.1")
    assert await reached(backend, listener.port) == "127.0.0.1"


async def test_a_pod_with_its_own_localhost_port_is_not_reached_elsewhere(
    backend: Backend, listener: Listener, paths: Paths
) -> None:
    await listener.listen("127.0.0.1")
    launched(paths, [listener.port + 1])
    assert await reached(backend, listener.port) == "127.0.0.1"
    launched(paths, [listener.port])
    with pytest.raises(StreamRefusedError):
        await backend.connect(pod(), listener.port)
    launched(paths, None)
    with pytest.raises(StreamRefusedError) as refused:
        await backend.connect(pod(), listener.port)
    assert str(refused.value) == (
        f'failed to connect to localhost:{listener.port} inside namespace "u", '
        f"IPv4: dial tcp4 {ADDRESS}:{listener.port}: connect: connection refused"
    )


@pytest.mark.parametrize("status", [{"podIP": ""}, {"phase": "Succeeded"}, {"phase": "Failed"}])
async def test_a_pod_that_does_not_run(backend: Backend, status: dict[str, str]) -> None:
    with pytest.raises(StreamRefusedError, match="sandbox container is not running"):
        await backend.connect(pod(**status), 80)
