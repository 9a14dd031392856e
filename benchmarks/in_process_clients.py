"""Creates per second of a client in the API server's own process, over three transports.

The controllers, the scheduler, the node and the operator of an embedded cluster are such clients.
Both ends share one processor, so processor time per create is what counts. Transports alternate.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.apiserver import pod
from traincrew.engine.client import Client
from traincrew.engine.config import ClientConfig, StaticCredentials, from_kubeconfig
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage
from traincrew.local.authority import Certificate, make_certificate

if TYPE_CHECKING:
    from collections.abc import Callable

CREATES = 400
AT_A_TIME = 8
ROUNDS = 5
PATH = "/api/v1/namespaces/default/pods"


async def _measure(config: ClientConfig, prefix: str) -> tuple[float, float]:
    """Return the creates per second, and the processor time of each in milliseconds."""
    bodies = [pod(f"{prefix}-{number}") for number in range(CREATES)]

    async def work(client: Client) -> None:
        while bodies:
            await client.request("POST", PATH, body=bodies.pop())

    async with Client(config) as client:
        started, spent = time.perf_counter(), time.process_time()
        await asyncio.gather(*(work(client) for _ in range(AT_A_TIME)))
        elapsed, used = time.perf_counter() - started, time.process_time() - spent
    return CREATES / elapsed, used / CREATES * 1000


async def _round(certificate: Certificate | None, dial: bool) -> tuple[float, float]:
    storage = Storage()
    server = ApiServer(storage, secret="benchmark-benchmark")
    await server.start(certificate=certificate)
    try:
        config = from_kubeconfig(server.kubeconfig())
        if dial:
            credentials = StaticCredentials.token(server.token)
            config = ClientConfig(config.server, credentials=credentials, dial=server.connect)
        await _measure(config, "warm")
        return await _measure(config, "bench")
    finally:
        await server.stop()
        storage.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        certificate = make_certificate(Path(directory))
        ways: dict[str, Callable[[], tuple[float, float]]] = {
            "socket pair": lambda: asyncio.run(_round(None, True)),
            "loopback": lambda: asyncio.run(_round(None, False)),
            "loopback with TLS": lambda: asyncio.run(_round(certificate, False)),
        }
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                figures[name].append(way())
    for name, found in figures.items():
        rate, used = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"{name}: {rate:.0f} creates/s, {used:.2f} ms of processor time each")


if __name__ == "__main__":
    main()
