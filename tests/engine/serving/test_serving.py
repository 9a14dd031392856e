"""Ports with strangers: streams, HTTP, and what is left of descriptors."""

from __future__ import annotations

import asyncio
import logging
import sys

import pytest
from aiohttp import web

from traincrew.engine.serving.accepting import listening, open_listener
from traincrew.engine.serving.http import HttpServer
from traincrew.engine.serving.limits import Limits
from traincrew.engine.serving.streams import StreamServer

DEADLINE = 60.0
FEW = Limits("test", connections=4, share=1 / 4, least=0.02)


async def read_all(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(DEADLINE):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


async def test_the_oldest_stream_makes_way() -> None:
    accepted: list[asyncio.StreamWriter] = []
    server = StreamServer(FEW, lambda _, writer: accepted.append(writer))
    port = server.listen("127.0.0.1", 0)
    assert listening()["127.0.0.1", port, "tcp"] == "test"
    crowd = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
    for reader, _ in crowd[:6]:
        assert await read_all(reader) == b""
    async with asyncio.timeout(DEADLINE):
        while len(accepted) < 10:
            await asyncio.sleep(0.01)
    for writer in accepted[6:]:
        writer.write(b"x")
        writer.close()
    for reader, _ in crowd[6:]:
        assert await read_all(reader) == b"x"
    server.close()
    for writer in (*accepted, *(writer for _, writer in crowd)):
        writer.close()
    assert not listening()


async def test_a_failure_is_one_line_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        raise RuntimeError(f"no\n\x1b[31m{request.path}")

    server = HttpServer(FEW, handle)
    port = await server.listen("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await read_all(reader)).startswith(b"HTTP/1.1 500 ")
    writer.close()
    await server.close()
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is None
    text = record.getMessage()
    assert text.startswith("GET: RuntimeError: no")
    assert "test_serving.py:" in text
    assert text.isprintable()


async def test_a_body_that_never_ends_is_cut() -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=await request.read())

    server = HttpServer(FEW._replace(answer=0.3, body=100), handle)
    port = await server.listen("127.0.0.1", 0)
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head % 50 + b"x" * 10)
    assert await read_all(reader) == b""
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head % 200 + b"x" * 200)
    async with asyncio.timeout(DEADLINE):
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
    writer.close()
    await server.close()


def test_an_address_that_is_taken() -> None:
    with open_listener("127.0.0.1", 0) as taken, pytest.raises(OSError, match="in use"):
        open_listener("127.0.0.1", taken.getsockname()[1])


EXHAUSTED = """
import asyncio, os, resource
from traincrew.engine.serving.limits import Limits
from traincrew.engine.serving.streams import StreamServer
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

def accepted(reader, writer):
    writer.write(b"x")
    writer.close()

async def main():
    server = StreamServer(Limits("test", connections=1000, share=1.0), accepted)
    print(server.listen("127.0.0.1", 0), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, int)  # imports what that needs
    held = []
    try:
        while True:
            held.append(os.dup(0))
    except OSError:
        pass
    print("full", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, input)
    for each in held:
        os.close(each)
    await asyncio.get_running_loop().run_in_executor(None, input)

asyncio.run(main())
"""


async def test_a_process_without_descriptors_accepts_again_later() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        EXHAUSTED,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    assert await process.stdout.readline() == b"full\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert process.stdin is not None
    process.stdin.write(b"\n")
    assert await read_all(reader) == b"x"
    writer.close()
    _, errors = await process.communicate(b"\n")
    assert (process.returncode, errors) == (0, b"")
