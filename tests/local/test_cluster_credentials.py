"""The credentials of a cluster: they survive restarts, and are never sent to another server."""

import asyncio
import getpass
import json
import os
import socket
from pathlib import Path

import aiohttp
import pytest

from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.errors import UnreachableError
from traincrew.engine.resources import NODES
from traincrew.local.apiserver.http.listening import PortInUseError
from traincrew.local.cluster import ClusterOptions, LocalCluster


def options(directory: Path | None) -> ClusterOptions:
    return ClusterOptions(directory=directory)


async def test_credentials_work_as_in_any_cluster_and_survive_restarts(tmp_path: Path) -> None:
    documents = []
    for _ in range(2):
        async with LocalCluster(options(tmp_path)) as cluster:
            path = Path(cluster.kubeconfig_path)
            assert path.stat().st_mode & 0o777 == 0o600
            document = json.loads(path.read_text())
            documents.append(document)
            server = document["clusters"][0]["cluster"]["server"]
            assert server == f"https://127.0.0.1:{cluster.server.port}"
            assert document["clusters"][0]["cluster"]["certificate-authority-data"]
            assert len(document["users"][0]["user"]["token"]) >= 32
            async with Client(load_config(str(path))) as client:
                assert (await client.list(NODES))["items"]
            # Requests without the token, and plain HTTP, are refused.
            async with aiohttp.ClientSession() as session:
                async with session.get(f"{server}/version", ssl=False) as answer:
                    assert answer.status == 401
                with pytest.raises(aiohttp.ClientError):
                    await session.get(server.replace("https", "http"))
    assert documents[0] == documents[1]


async def test_an_impostor_on_the_port_does_not_receive_the_token(tmp_path: Path) -> None:
    async with LocalCluster(options(tmp_path)) as cluster:
        port, token = cluster.server.port, cluster.server.token
        config = load_config(cluster.kubeconfig_path)
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.read(65536))
        writer.close()

    impostor = await asyncio.start_server(listen, "127.0.0.1", port)
    async with impostor, Client(config) as client:
        with pytest.raises(UnreachableError):
            await client.list(NODES)
    assert heard
    assert token.encode() not in heard


async def test_a_taken_port_is_reported_in_one_line(tmp_path: Path) -> None:
    async with LocalCluster(options(tmp_path)) as cluster:
        port = cluster.server.port
    with socket.create_server(("127.0.0.1", port)), pytest.raises(PortInUseError) as caught:
        await LocalCluster(options(tmp_path)).start()
    message = str(caught.value)
    assert message.startswith(f"127.0.0.1:{port} is in use by ")
    assert f"(process {os.getpid()} of user {getpass.getuser()}): end that program" in message
    assert "\n" not in message


async def test_clients_in_this_process_need_no_network(tmp_path: Path) -> None:
    cluster = LocalCluster(options(tmp_path))
    await cluster.start()
    loopback = f"http://127.0.0.1:{cluster.server.port}"
    assert cluster.client.config.server != loopback
    assert (await cluster.client.list(NODES))["items"]
    client = cluster.make_client()

    def in_a_thread() -> int:
        async def ask() -> int:
            async with cluster.make_client() as other:
                return len((await other.list(NODES))["items"])

        return asyncio.run(ask())

    assert await asyncio.to_thread(in_a_thread) == 1
    await cluster.stop()
    with pytest.raises(UnreachableError):
        await client.list(NODES)
    await client.close()
