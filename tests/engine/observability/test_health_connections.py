"""Clients of the health port are strangers: they get few connections, and little time."""

import asyncio
import sys

import pytest

from traincrew.engine.observability import HealthServer, Metrics, health

DEADLINE = 60.0
GET = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def is_closed(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(DEADLINE):
        try:
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
    return True


async def answered(connection: Connection) -> bytes:
    reader, writer = connection
    writer.write(GET)
    async with asyncio.timeout(DEADLINE):
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)
    return head.partition(b"\r\n")[0]


async def test_the_oldest_connection_makes_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LIMITS", health.LIMITS._replace(connections=8))
    server = HealthServer(Metrics(), host="127.0.0.1")
    await server.start()
    try:
        crowd = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(20)]
        for reader, _ in crowd[:12]:
            assert await is_closed(reader)
        for connection in crowd[12:]:
            assert await answered(connection) == b"HTTP/1.1 200 OK"
        for _, writer in crowd:
            writer.close()
    finally:
        await server.stop()


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", GET + GET[:20], GET])
@pytest.mark.parametrize("limit", ["head", "idle"])
async def test_slow_clients_are_disconnected(
    monkeypatch: pytest.MonkeyPatch, sent: bytes, limit: str
) -> None:
    hurried = health.LIMITS._replace(answer=60.0, idle=0.2)
    if limit == "head":
        hurried = health.LIMITS._replace(answer=0.2, head=0.2)
    monkeypatch.setattr(health, "LIMITS", hurried)
    server = HealthServer(Metrics(), host="127.0.0.1")
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        async with asyncio.timeout(3):
            assert await is_closed(reader)
        writer.close()
    finally:
        await server.stop()


async def test_other_paths_and_methods_are_refused() -> None:
    server = HealthServer(Metrics(), host="127.0.0.1")
    await server.start()
    try:
        for line, code in (
            (b"GET /debug/pprof", b"404"),
            (b"GET /healthz/", b"404"),
            (b"DELETE /healthz", b"405"),
            (b"HEAD /healthz", b"200"),
            (b"GET /healthz?verbose", b"200"),
            (b"GET http://elsewhere/healthz", b"200"),
            (b"OPTIONS *", b"404"),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(line + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            async with asyncio.timeout(DEADLINE):
                answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 " + code), line
            writer.close()
    finally:
        await server.stop()


CROWDED = """
import asyncio, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
from traincrew.engine.observability import HealthServer, Metrics

async def main():
    server = HealthServer(Metrics(), host="127.0.0.1")
    await server.start()
    print(server.port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, input)
    open("/dev/null").close()
    await server.stop()

asyncio.run(main())
"""


async def test_strangers_cannot_use_up_the_descriptors() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CROWDED,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    async with asyncio.timeout(DEADLINE):
        crowd = [await asyncio.open_connection("127.0.0.1", port) for _ in range(150)]
        probe = await asyncio.open_connection("127.0.0.1", port)
        assert await answered(probe) == b"HTTP/1.1 200 OK"
        await process.communicate(b"\n")
    assert process.returncode == 0
    for _, writer in (*crowd, probe):
        writer.close()
