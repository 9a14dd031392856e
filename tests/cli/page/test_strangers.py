"""What other users of the machine send to the port of the page, without its address."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import sys
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from bombs import bomb, frugal, send
from cli.page.test_server import cluster, opened
from traincrew.cli.page import server as page_server

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Cluster

__all__ = ["cluster"]

DEADLINE = 60.0
CROWD = 950
CROWDED = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
import yaml
from traincrew.cli.page.server import PageServer
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.observability import configure_logging

async def main():
    configure_logging("text", "error")
    async with Client(load_config(sys.argv[1])) as client:
        server = PageServer(client, "a cluster")
        await server.start()
        print(server.address(), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, input)
        open("/dev/null").close()  # a descriptor is left for the training
        await server.stop()

asyncio.run(main())
"""


async def exchange(port: int, request: bytes) -> bytes:
    """Send bytes; return what comes until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(DEADLINE):
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


def session_request(port: int, body: bytes, headers: str = "") -> bytes:
    return (
        f"POST /session HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{headers}"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe\xc3(",
        b'{"token": "\xff"}',
        b'{"token": "\\ud800"}',
        b"[" * 4000,
        b'{"token": 1}',
        b'{"token": "' + b"9" * 4000 + b'"}',
        b'{"other": "x"}',
        b"null",
        b"",
    ],
)
async def test_no_body_of_a_session_is_an_error_of_ours(
    cluster: Cluster, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(cluster) as browser:
        port = browser.server.port
        answer = await exchange(port, session_request(port, body))
        head, _, content = answer.partition(b"\r\n\r\n")
        assert head.split()[1] in {b"400", b"403"}
        assert json.loads(content)["error"]
    assert not caplog.records


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\nAuthorization: Bearer \xff\r\n\r\n",
        b"\x16\x03\x01\x02\x00 nonsense\r\n\r\n",
        b"POST /session HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET /jobs/%ff/%00/%2e%2e HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    ],
)
async def test_nothing_prints_a_traceback(
    cluster: Cluster, request_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(cluster) as browser:
        answer = await exchange(browser.server.port, request_[:-2] + b"Connection: close\r\n\r\n")
        assert answer.split()[1] in {b"400", b"403"}
    assert not [each for each in caplog.records if each.exc_info or each.levelno > logging.WARNING]


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_compressed_bodies_are_not_inflated(cluster: Cluster, encoding: str) -> None:
    async with opened(cluster) as browser:
        port = browser.server.port
        with frugal():
            code, answer = await send(port, "/session", bomb(encoding), encoding)
        assert code == 403  # it names no port in Host
        assert b"another host" in answer
        small = gzip.compress(b'{"token": "x"}')
        answer = await exchange(
            port, session_request(port, small, f"Content-Encoding: {encoding}\r\n")
        )
        assert b" 415 " in answer.partition(b"\r\n")[0]


async def test_a_large_body_is_not_kept(cluster: Cluster) -> None:
    async with opened(cluster) as browser:
        port = browser.server.port
        started = time.monotonic()
        answer = await exchange(port, session_request(port, b" " * (4 << 20)))
        assert b" 413 " in answer.partition(b"\r\n")[0] or not answer
        assert time.monotonic() - started < 10
        status, _ = await browser.get("/jobs/none")
        assert status == 404


async def test_idle_connections_end_neither_page_nor_process(
    cluster: Cluster, tmp_path: Path
) -> None:
    import yaml

    config = tmp_path / "config"
    config.write_text(yaml.safe_dump(cluster.server.kubeconfig()))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CROWDED,
        str(config),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    base, _, token = (await process.stdout.readline()).decode().strip().partition("/#token=")
    port = int(base.rpartition(":")[2])
    async with asyncio.timeout(DEADLINE):
        crowd: list[Any] = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CROWD)]
        async with aiohttp.ClientSession() as http:
            async with http.post(f"{base}/session", json={"token": token}) as answer:
                assert answer.status == 200
                key = (await answer.json())["session"]
            headers = {"Authorization": f"Bearer {key}"}
            async with http.get(f"{base}/jobs", headers=headers) as stream:
                assert stream.status == 200
                assert await stream.content.readline()
        _, errors = await process.communicate(b"\n")
    assert process.returncode == 0, errors
    assert errors == b""
    for _, writer in crowd:
        writer.close()


async def test_a_stream_of_a_session_outlives_the_limits(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The session has to be opened within these limits, on a busy machine as well.
    limits = page_server.LIMITS._replace(head=1.0, answer=1.0, connections=4)
    monkeypatch.setattr(page_server, "LIMITS", limits)
    async with opened(cluster) as browser:
        url = f"{browser.base}/jobs"
        async with browser.http.get(url, headers=browser.headers) as stream:
            await stream.content.readline()
            crowd = [
                await asyncio.open_connection("127.0.0.1", browser.server.port) for _ in range(12)
            ]
            async with asyncio.timeout(DEADLINE):
                for reader, _ in crowd:
                    assert await reader.read() == b""
            assert not stream.content.at_eof()
            assert not stream.content.exception()
            for _, writer in crowd:
                writer.close()
