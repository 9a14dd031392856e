"""Port forwarding: data between the client's streams and the node's connections."""

from __future__ import annotations

import asyncio
import struct
import zlib
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from local.apiserver.spdy_client import SpdyClient
from local.apiserver.support import DEADLINE, PODS, Api, pod
from traincrew.local.apiserver.http.node_backend import StreamRefusedError
from traincrew.local.apiserver.http.spdy.connection import DICTIONARY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BINDING = {"target": {"kind": "Node", "name": "n"}}
PATH, PROTOCOL = f"{PODS}/p/portforward", "portforward.k8s.io"
TUNNEL = f"SPDY/3.1+{PROTOCOL}"


class Node:
    """A node backend whose pods echo on one port, count bytes on another and refuse all others."""

    def __init__(self) -> None:
        self.open = 0
        self.servers: dict[int, asyncio.Server] = {}

    async def start(self) -> None:
        for port, serve in ((7, self._echo), (8, self._count), (9, self._hello)):
            self.servers[port] = await asyncio.start_server(serve, "127.0.0.1", 0)

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            writer.close()

    async def _count(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Respond with the number of bytes, once the client has closed its side."""
        writer.write(str(len(await reader.read())).encode())
        writer.close()

    async def _hello(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    async def connect(
        self, pod: dict[str, Any], port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert pod["metadata"]["name"] == "p"
        if port not in self.servers:
            raise StreamRefusedError("connection refused")
        place = self.servers[port].sockets[0].getsockname()
        return await asyncio.open_connection(*place)


@pytest.fixture
async def node(api: Api) -> AsyncIterator[Node]:
    node = Node()
    await node.start()
    api.server.node = node  # type: ignore[assignment]
    (await api.post(PODS, pod("p"))).ok(201)
    (await api.post(f"{PODS}/p/binding", BINDING)).ok(201)
    yield node
    for server in node.servers.values():
        server.close()


@pytest.fixture(params=["upgraded", "tunnel"])
async def client(request: pytest.FixtureRequest, api: Api, node: Node) -> AsyncIterator[SpdyClient]:
    client = SpdyClient(api)
    if request.param == "tunnel":
        await client.tunnel(PATH, TUNNEL)
    else:
        head = await client.upgrade(PATH, PROTOCOL)
        assert head.startswith(b"HTTP/1.1 101")
        assert b"X-Stream-Protocol-Version: portforward.k8s.io\r\n" in head
        assert b"Upgrade: SPDY/3.1\r\n" in head
    yield client
    await client.close()


async def until_closed(node: Node) -> None:
    async with asyncio.timeout(DEADLINE):
        while node.open:
            await asyncio.sleep(0.005)


def test_the_header_dictionary_is_that_of_the_specification() -> None:
    # The dictionary identifier in the headers of SPDY/3's zlib streams.
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


async def test_bytes_are_forwarded_in_both_directions(client: SpdyClient, node: Node) -> None:
    error, data = await client.pair(7, "0")
    await client.write(data, b"ping")
    await client.until_data(data, b"ping")
    assert client.replied == {error, data}
    big = bytes(range(256)) * 4096
    sending = asyncio.create_task(_in_pieces(client, data, big))
    await client.until_data(data, b"ping" + big)
    await sending
    await client.write(data, b"", end=True)
    await client.until_ended(error, data)
    assert client.data[error] == b""


async def _in_pieces(client: SpdyClient, stream: int, data: bytes) -> None:
    for start in range(0, len(data), 32768):
        await client.write(stream, data[start : start + 32768])


async def test_the_end_of_the_clients_data_is_forwarded(client: SpdyClient, node: Node) -> None:
    """The program responds only after the end of the data."""
    _, data = await client.pair(8, "0")
    await client.write(data, b"x" * 1000)
    await client.write(data, b"", end=True)
    await client.until_ended(data)
    assert client.data[data] == b"1000"


async def test_streams_are_closed_when_the_program_closes(client: SpdyClient, node: Node) -> None:
    error, data = await client.pair(9, "0")
    await client.until_ended(error, data)
    assert client.data == {error: b"", data: b"hello"}


async def test_many_concurrent_connections(client: SpdyClient, node: Node) -> None:
    pairs = [await client.pair(7, str(number)) for number in range(50)]
    for number, (_, data) in enumerate(pairs):
        await client.write(data, b"%d" % number)
    for number, (_, data) in enumerate(pairs):
        await client.until_data(data, b"%d" % number)
    assert node.open == 50
    await client.close()
    await until_closed(node)


async def test_a_port_without_a_listener_is_reported(
    client: SpdyClient, api: Api, node: Node
) -> None:
    uid = (await api.get(f"{PODS}/p")).ok()["metadata"]["uid"]
    error, data = await client.pair(999, "0")
    await client.until_ended(error, data)
    text = f"error forwarding port 999 to pod {uid}, uid : connection refused"
    assert client.data[error].decode() == text
    _, data = await client.pair(7, "1")  # the others go on
    await client.write(data, b"still here")
    await client.until_data(data, b"still here")


async def test_invalid_streams_are_closed(client: SpdyClient, node: Node) -> None:
    for headers in (
        {"streamType": "data", "port": "nine", "requestID": "0"},
        {"streamType": "data", "port": "70000", "requestID": "0"},
        {"streamType": "stdin", "port": "7", "requestID": "0"},
        {},
    ):
        await client.until_ended(await client.open(**headers))


async def test_pings_are_answered(client: SpdyClient, node: Node) -> None:
    await client.send(struct.pack("!III", 0x80030006, 4, 1))
    while not client.pings:
        assert await client.frame()
    assert client.pings == [struct.pack("!I", 1)]


async def test_a_reset_ends_the_connection_to_the_program(client: SpdyClient, node: Node) -> None:
    _, data = await client.pair(7, "0")
    await client.write(data, b"x")
    await client.until_data(data, b"x")
    await client.send(struct.pack("!IIII", 0x80030003, 8, data, 5))
    await until_closed(node)


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack("!II", 1, 0xFFFFFF),  # 16 MiB
        struct.pack("!II", 0x80020001, 0),  # SPDY/2
        struct.pack("!II", 0x80030001, 2) + b"xx",  # cut short
        struct.pack("!IIIIH", 0x80030001, 20, 1, 0, 0) + b"not zlib!!",
        struct.pack("!IIIIH", 0x80030001, 10, 2, 0, 0),  # even: the server's
        b"GET / HTTP/1.1\r\n\r\n" * 10,
    ],
)
async def test_protocol_violations_close_the_connection(
    client: SpdyClient, node: Node, frame: bytes
) -> None:
    await client.send(frame)
    while await client.frame():
        pass


async def test_headers_over_the_limit_close_the_connection(client: SpdyClient, node: Node) -> None:
    block = client.deflate.compress(bytes(10_000_000)) + client.deflate.flush(zlib.Z_SYNC_FLUSH)
    body = struct.pack("!IIH", 1, 0, 0) + block
    await client.send(struct.pack("!II", 0x80030001, len(body)) + body)
    while await client.frame():
        pass


# -- channels of a websocket, as the Python client has them


async def channels(api: Api, ports: str) -> aiohttp.ClientWebSocketResponse:
    return await api.session.ws_connect(
        api.server.url + f"{PODS}/p/portforward?ports={ports}", protocols=["v4.channel.k8s.io"]
    )


async def receive(socket: aiohttp.ClientWebSocketResponse, channel: int, wanted: bytes) -> None:
    received = b""
    async with asyncio.timeout(DEADLINE):
        while received != wanted:
            message = await socket.receive_bytes()
            if message[0] == channel:
                received += message[1:]


async def test_forwarding_over_websocket_channels(api: Api, node: Node) -> None:
    async with await channels(api, "7,999") as socket:
        heads = [await socket.receive_bytes() for _ in range(4)]
        assert sorted(heads) == [b"\0\x07\0", b"\x01\x07\0", b"\x02\xe7\x03", b"\x03\xe7\x03"]
        uid = (await api.get(f"{PODS}/p")).ok()["metadata"]["uid"]
        text = f"error forwarding port 999 to pod {uid}, uid : connection refused"
        await receive(socket, 3, text.encode())
        await socket.send_bytes(b"\0ping")
        await receive(socket, 0, b"ping")
        await socket.send_bytes(b"\x63nobody's channel")
    await until_closed(node)


@pytest.mark.parametrize(
    ("port", "channel", "last"), [(9, 0, "hello"), (999, 1, "connection refused")]
)
async def test_the_websocket_is_closed_when_the_pod_has_closed(
    api: Api, node: Node, port: int, channel: int, last: str
) -> None:
    async with await channels(api, str(port)) as socket, asyncio.timeout(DEADLINE):
        received = [await socket.receive_bytes() for _ in range(3)]
        assert received[-1][0] == channel
        assert received[-1].decode().endswith(last)
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == aiohttp.WSCloseCode.OK


async def test_a_port_that_the_pod_has_closed_does_not_block_another(api: Api, node: Node) -> None:
    async with await channels(api, "9,7") as socket, asyncio.timeout(DEADLINE):
        first = [await socket.receive_bytes() for _ in range(5)]  # a number on each channel
        assert b"\0hello" in first
        for _ in range(100):
            await socket.send_bytes(b"\0nobody reads this")
        await socket.send_bytes(b"\2ping")
        await receive(socket, 2, b"ping")
    await until_closed(node)


# -- refusals


@pytest.mark.parametrize("ports", ["", "x", "0", "7,,70000", ",".join(["7"] * 101)])
async def test_invalid_ports_are_rejected(api: Api, node: Node, ports: str) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await channels(api, ports)
    assert refused.value.status == 400


async def test_requests_without_an_upgrade_are_rejected(api: Api, node: Node) -> None:
    for method in ("GET", "POST"):
        answer = await api.request(method, f"{PODS}/p/portforward")
        answer.refused(400, "BadRequest", "Upgrade request required")
    (await api.get(f"{PODS}/none/portforward")).refused(404, "NotFound", 'pods "none" not found')
    client = SpdyClient(api)
    assert (await client.upgrade(PATH, "something.else")).startswith(b"HTTP/1.1 403")
    await client.close()
    client = SpdyClient(api)
    assert (await client.upgrade(PATH)).startswith(b"HTTP/1.1 400")
    await client.close()
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await api.session.ws_connect(
            api.server.url + f"{PODS}/p/portforward?ports=7", protocols=["other"]
        )
    assert refused.value.status == 400


async def test_a_pod_without_a_node_is_rejected(api: Api, node: Node) -> None:
    (await api.post(PODS, pod("new"))).ok(201)
    answer = await api.get(f"{PODS}/new/portforward")
    answer.refused(400, "BadRequest", "pod new does not have a host assigned")


async def test_the_server_stops_during_forwarding(api: Api, node: Node) -> None:
    client = SpdyClient(api)
    await client.upgrade(PATH, PROTOCOL)
    _, data = await client.pair(7, "0")
    await client.write(data, b"x")
    await client.until_data(data, b"x")
    async with asyncio.timeout(DEADLINE):
        await api.server.stop()
    await until_closed(node)
    await client.close()
