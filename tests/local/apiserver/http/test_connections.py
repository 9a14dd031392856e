"""Unauthenticated connections: limited in number, time and log lines."""

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from local.apiserver.support import AUTHORIZATION, DEADLINE, MAPS, SECRET, Api, config_map
from traincrew.engine.serving import serverlog
from traincrew.local.apiserver.http import server as apiserver
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage
from traincrew.local.authority import make_certificate

GET = f"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n{AUTHORIZATION}\r\n".encode()


def limit(monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
    """Change the limits of servers that are started from now on."""
    monkeypatch.setattr(apiserver, "LIMITS", apiserver.LIMITS._replace(**limits))


def limit_now(server: ApiServer, **limits: Any) -> None:
    """Change the limits of a server that runs."""
    connections = server._connections
    assert connections is not None
    connections.limits = connections.limits._replace(**limits)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, head=0.3)


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(DEADLINE):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /readyz HT",
        b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        GET.replace(SECRET.encode(), b"wrong"),
        b"POST /api/v1 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n",
    ],
)
@pytest.mark.usefixtures("hurried")
async def test_unauthenticated_connections_are_closed(api: Api, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(sent)
    answer = await until_closed(reader)
    assert not answer or answer.startswith(b"HTTP/1.1 401 ")
    writer.close()


async def test_authenticated_connections_stay_open(api: Api) -> None:
    limit_now(api.server, head=1.5)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(GET)
    async with asyncio.timeout(DEADLINE):
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")
    stranger, silent = await asyncio.open_connection("127.0.0.1", api.server.port)
    assert await until_closed(stranger) == b""  # younger than the other one
    writer.write(GET)
    async with asyncio.timeout(DEADLINE):
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")
    silent.close()
    writer.close()


async def test_many_unauthenticated_connections_do_not_block_others(api: Api) -> None:
    limit_now(api.server, connections=8, least=0.02)
    trusted, known = await asyncio.open_connection("127.0.0.1", api.server.port)
    known.write(GET)
    await trusted.readuntil(b"ok")
    crowd = [await asyncio.open_connection("127.0.0.1", api.server.port) for _ in range(12)]
    # The oldest make way; the last ones, and who is known, may go on.
    for reader, _ in crowd[:4]:
        assert await until_closed(reader) == b""
    for reader, writer in (*crowd[4:], (trusted, known)):
        writer.write(GET)
        async with asyncio.timeout(DEADLINE):
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")
    (await api.post(MAPS, config_map("a"))).ok(201)
    for _, writer in (*crowd, (trusted, known)):
        writer.close()


@pytest.fixture
async def secure(tmp_path: Path) -> AsyncIterator[ApiServer]:
    storage = Storage()
    server = ApiServer(storage, secret=SECRET)
    await server.start(certificate=make_certificate(tmp_path))
    yield server
    await server.stop()
    storage.close()


async def test_extension_servers_find_how_clients_are_authenticated(tmp_path: Path) -> None:
    """As their libraries read it at start; what others have added for clients stays."""
    storage, certificate = Storage(), make_certificate(tmp_path)
    place = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    role = "extension-apiserver-authentication-reader"
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles/{role}"
    found = []
    for _ in range(2):
        server = ApiServer(storage, secret=SECRET)
        await server.start(certificate=certificate)
        trusted = ssl.create_default_context(cadata=server.authority)
        async with aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {SECRET}"},
            connector=aiohttp.TCPConnector(ssl=trusted),
        ) as session:
            data = (await (await session.get(server.url + place)).json())["data"]
            (rule,) = (await (await session.get(server.url + roles)).json())["rules"]
            found.append(data)
            data = {"client-ca-file": f"{data['client-ca-file']}another"}
            headers = {"Content-Type": "application/merge-patch+json"}
            await session.patch(server.url + place, json={"data": data}, headers=headers)
        await server.stop()
    storage.close()
    first, second = found
    assert first["client-ca-file"] == first["requestheader-client-ca-file"] == server.authority
    assert first["requestheader-username-headers"] == '["X-Remote-User"]'
    assert second == first | {"client-ca-file": f"{server.authority}another"}
    assert rule["resourceNames"] == ["extension-apiserver-authentication"]


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01"])
@pytest.mark.usefixtures("hurried")
async def test_unfinished_handshakes_are_aborted(
    tmp_path: Path, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    storage = Storage()
    server = ApiServer(storage, secret=SECRET)
    await server.start(certificate=make_certificate(tmp_path))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(sent)
    assert b"HTTP/1.1 2" not in await until_closed(reader)
    writer.close()
    await server.stop()
    storage.close()
    assert not caplog.records


async def test_the_server_stops_in_time_with_open_connections(secure: ApiServer) -> None:
    trusted = ssl.create_default_context(cadata=secure.authority)
    silent = await asyncio.open_connection("127.0.0.1", secure.port, ssl=trusted)
    async with aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {SECRET}"},
        connector=aiohttp.TCPConnector(ssl=trusted),
    ) as session:
        watch = await session.get(f"{secure.url}/api/v1/pods?watch=1")
        started = time.monotonic()
        await secure.stop()
        assert time.monotonic() - started < 5
        watch.close()
    silent[1].close()


async def test_malformed_requests_are_logged_at_a_limited_rate(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1000.0
    # The limit is that of a logger, which other tests use before and after.
    (limit,) = logging.getLogger("traincrew.http.apiserver").filters
    monkeypatch.setattr(limit, "_since", float("-inf"))
    monkeypatch.setattr(limit, "_passed", 0)
    monkeypatch.setattr(limit, "_dropped", 0)
    monkeypatch.setattr(serverlog, "time", SimpleNamespace(monotonic=lambda: now))
    caplog.set_level(logging.DEBUG)

    async def malformed() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
        writer.write(b"GET / HTTP/1.1\r\nbad header \x1b[31m\r\nHost: a\r\n\r\n")
        assert (await until_closed(reader)).startswith(b"HTTP/1.")
        writer.close()

    def lines() -> list[logging.LogRecord]:
        return [each for each in caplog.records if each.name == "traincrew.http.apiserver"]

    for _ in range(serverlog.LINES + 20):
        await malformed()
    written = lines()
    assert len(written) == serverlog.LINES
    for each in written:
        assert each.levelno == logging.WARNING
        assert each.exc_info is None
        text = each.getMessage()
        assert "400" in text
        assert text.isprintable()
        assert len(text) <= 400
    now += serverlog.SECONDS
    await malformed()
    assert "(lines left out: 20)" in lines()[-1].getMessage()


async def test_a_disconnect_before_the_response_is_not_an_error(
    api: Api, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    respond = api.server._dispatcher.respond

    async def closing(request: web.BaseRequest, *args: Any, **options: Any) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()  # what the loop does when it reads the end of the connection
        return await respond(request, *args, **options)

    monkeypatch.setattr(api.server._dispatcher, "respond", closing)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(GET.replace(b"/readyz", f"{MAPS}?watch=1".encode()))
    assert await until_closed(reader) == b""
    writer.close()
    monkeypatch.undo()
    assert (await api.get("/readyz")).code == 200
    assert not caplog.records


async def test_many_unfinished_handshakes_do_not_block_others(secure: ApiServer) -> None:
    limit_now(secure, connections=8, least=0.2, head=600.0)
    crowd = [await asyncio.open_connection("127.0.0.1", secure.port) for _ in range(40)]
    tls = ssl.create_default_context(cadata=secure.authority)
    async with asyncio.timeout(DEADLINE):
        reader, writer = await asyncio.open_connection("127.0.0.1", secure.port, ssl=tls)
        writer.write(GET)
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")
        # The oldest have made way.
        for idle, _ in crowd[:24]:
            assert await until_closed(idle) == b""
    for _, idle_writer in crowd:
        idle_writer.close()
    writer.transport.abort()
