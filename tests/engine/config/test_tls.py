"""Certificates, against a real TLS server."""

import asyncio
import gc
import os
import ssl
import subprocess
import threading
import time
import warnings
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from engine.certificates import Authority
from traincrew.engine.client import Client
from traincrew.engine.config import ClientConfig, TlsSettings, from_kubeconfig
from traincrew.engine.errors import ConfigError, UnreachableError
from traincrew.engine.testing import ManualClock

SECONDS = 10.0
"""Timeout for a server that does not answer."""


@asynccontextmanager
async def serving(
    authority: Authority,
    name: str = "server",
    *,
    demand: bool = False,
    let_go: threading.Event | None = None,
) -> AsyncIterator[int]:
    """Run a TLS server that reports the identity of the client; yield its port.

    During a watch it does nothing at all, not even close connections, until ``let_go`` is set.
    """

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        if "watch" in request.query:
            stream = web.StreamResponse()
            await stream.prepare(request)
            await stream.write(b"{}")
            assert let_go is not None
            let_go.wait(SECONDS)
            return stream
        peer = request.transport.get_extra_info("peercert") or {}
        subject = [value for ((key, value),) in peer.get("subject", ()) if key == "commonName"]
        authorization = request.headers.get("Authorization", "")
        return web.json_response({"client": subject, "authorization": authorization})

    context = ssl.create_default_context(
        ssl.Purpose.CLIENT_AUTH, cafile=authority.directory / "ca.crt"
    )
    context.load_cert_chain(
        authority.directory / f"{name}.crt", authority.directory / f"{name}.key"
    )
    context.verify_mode = ssl.CERT_REQUIRED if demand else ssl.CERT_OPTIONAL
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def kubeconfig(port: int, cluster: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    server = {"server": f"https://127.0.0.1:{port}/prefix"} | cluster
    return {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": server}],
        "users": [{"name": "x", "user": user}],
    }


def inline(path: Path) -> str:
    return b64encode(path.read_bytes()).decode()


async def ask(config: ClientConfig) -> dict[str, Any]:
    async with Client(config) as client:
        return await client.server_version()


async def test_client_certificate_and_ca_as_files(authority: Authority) -> None:
    async with serving(authority) as port:
        document = kubeconfig(
            port,
            {"certificate-authority": "ca.crt"},
            {"client-certificate": "alice.crt", "client-key": "alice.key"},
        )
        config = from_kubeconfig(document, directory=authority.directory)

        assert (await ask(config))["client"] == ["alice"]


async def test_client_certificate_and_ca_inline_leave_no_key_on_disk(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = authority.directory
    async with serving(authority) as port:
        document = kubeconfig(
            port,
            {"certificate-authority-data": inline(directory / "ca.crt")},
            {
                "client-certificate-data": inline(directory / "alice.crt"),
                "client-key-data": inline(directory / "alice.key"),
                "token": "both",
            },
        )
        assert await ask(from_kubeconfig(document)) == {
            "client": ["alice"],
            "authorization": "Bearer both",
        }
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - shorter, and not async's business


async def test_a_server_of_another_authority_is_refused(
    authority: Authority, stranger: Authority
) -> None:
    async with serving(authority) as port:
        cluster = {"certificate-authority-data": inline(stranger.directory / "ca.crt")}
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            await ask(from_kubeconfig(kubeconfig(port, cluster, {})))
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            await ask(from_kubeconfig(kubeconfig(port, {}, {})))


async def test_insecure_disables_verification(authority: Authority) -> None:
    async with serving(authority, "elsewhere") as port:
        cluster = {"insecure-skip-tls-verify": True}

        assert await ask(from_kubeconfig(kubeconfig(port, cluster, {})))


async def test_the_name_in_the_certificate_may_be_given(authority: Authority) -> None:
    trusted = {"certificate-authority-data": inline(authority.directory / "ca.crt")}
    async with serving(authority, "elsewhere") as port:
        with pytest.raises(UnreachableError, match="IP address mismatch"):
            await ask(from_kubeconfig(kubeconfig(port, trusted, {})))
        named = trusted | {"tls-server-name": "kubernetes.example"}

        assert await ask(from_kubeconfig(kubeconfig(port, named, {})))


async def test_the_servers_own_certificate_may_be_trusted(authority: Authority) -> None:
    """As in Go, where whatever is in the pool ends a chain."""
    async with serving(authority) as port:
        cluster = {"certificate-authority-data": inline(authority.directory / "server.crt")}

        assert await ask(from_kubeconfig(kubeconfig(port, cluster, {})))


async def test_rotated_files_are_used_for_new_connections(
    authority: Authority, tmp_path: Path
) -> None:
    clock = ManualClock()

    def rotate(name: str, stamp: int) -> None:
        for suffix in ("crt", "key"):
            target = tmp_path / f"client.{suffix}"
            target.write_bytes((authority.directory / f"{name}.{suffix}").read_bytes())
            os.utime(target, (stamp, stamp))

    rotate("alice", 1)
    tls = TlsSettings(
        ca=authority.directory / "ca.crt",
        certificate=tmp_path / "client.crt",
        key=tmp_path / "client.key",
        clock=clock,
    )
    async with serving(authority) as port:
        config = ClientConfig(f"https://127.0.0.1:{port}", tls=tls)
        assert (await ask(config))["client"] == ["alice"]
        rotate("bob", 2)
        assert (await ask(config))["client"] == ["alice"], "checked once a minute"
        clock.advance(61)
        assert (await ask(config))["client"] == ["bob"]
        context = tls.context()
        clock.advance(61)
        assert tls.context() is context, "nothing changed"


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({"certificate-authority-data": "eA=="}, {}, "certificate-authority-data cannot be used"),
        (
            {},
            {"client-certificate-data": "eA==", "client-key-data": "eA=="},
            "client-certificate or client-key cannot be used",
        ),
    ],
)
async def test_invalid_certificates(
    cluster: dict[str, Any], user: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        await ask(from_kubeconfig(kubeconfig(1, cluster, user)))


async def test_a_file_that_is_not_a_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("hello")
    document = kubeconfig(1, {"certificate-authority": "ca.pem"}, {})
    with pytest.raises(ConfigError, match=r"certificate-authority .*ca\.pem cannot be used"):
        await ask(from_kubeconfig(document, directory=tmp_path))


@pytest.fixture
def encrypted_key(authority: Authority, tmp_path: Path) -> Path:
    key = tmp_path / "key"
    subprocess.run(
        [
            "openssl",
            "ec",
            "-in",
            authority.directory / "alice.key",
            "-aes128",
            "-passout",
            "pass:secret",
            "-out",
            key,
        ],
        check=True,
        capture_output=True,
    )
    return key


async def test_an_encrypted_key_is_refused_instead_of_asking_for_a_password(
    authority: Authority, encrypted_key: Path
) -> None:
    certificate = str(authority.directory / "alice.crt")
    user = {"client-certificate": certificate, "client-key": str(encrypted_key)}
    with pytest.raises(ConfigError, match="client-key is encrypted"):
        await ask(from_kubeconfig(kubeconfig(1, {}, user)))


async def test_a_proxy_is_used_for_tls_too(authority: Authority) -> None:
    tunnels = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        tunnels.append(request.split()[:2])
        host, port = request.split()[1].decode().split(":")
        upstream_reader, upstream_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        await asyncio.gather(pump(reader, upstream_writer), pump(upstream_reader, writer))

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, serving(authority) as port:
        cluster = {
            "certificate-authority-data": inline(authority.directory / "ca.crt"),
            "proxy-url": address,
        }
        assert await ask(from_kubeconfig(kubeconfig(port, cluster, {})))
        assert tunnels == [[b"CONNECT", f"127.0.0.1:{port}".encode()]]


async def test_no_connection_stays_open_when_a_loop_with_a_stream_ends(
    authority: Authority,
) -> None:
    let_go = threading.Event()

    async def watch(config: ClientConfig) -> None:
        parameters = {"watch": "true"}
        async with Client(config) as client, client.stream("/api", parameters) as chunks:
            assert await anext(aiter(chunks)) == b"{}"

    def run(config: ClientConfig) -> None:
        try:
            asyncio.run(watch(config))
        finally:
            let_go.set()

    async with serving(authority, let_go=let_go) as port:
        document = kubeconfig(port, {"certificate-authority": "ca.crt"}, {})
        config = from_kubeconfig(document, directory=authority.directory)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            began = time.monotonic()
            await asyncio.to_thread(run, config)
            took = time.monotonic() - began
            gc.collect()

    assert [str(warning.message) for warning in seen] == []
    assert took < SECONDS  # without waiting for the server's TLS shutdown
