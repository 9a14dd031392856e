"""Logs, exec and attach: streams between the client and the node."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from local.apiserver.support import DEADLINE, PODS, Api, pod
from traincrew.local.apiserver.http.node_backend import (
    ExecStreams,
    LogOptions,
    StreamRefusedError,
    Usage,
)

BINDING = {"target": {"kind": "Node", "name": "n"}}


class Node:
    """A node backend that records its calls and returns what the test sets."""

    def __init__(self) -> None:
        self.options: list[tuple[str, str, LogOptions]] = []
        self.commands: list[list[str]] = []
        self.chunks: list[bytes] = [b"one\n", b"two\n"]
        self.endless = False
        self.refusal = ""
        self.closed = asyncio.Event()
        self.sizes: list[tuple[int, int] | None] = []

    async def logs(
        self, pod: dict[str, Any], container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        self.options.append((pod["metadata"]["name"], container, options))
        if self.refusal:
            raise StreamRefusedError(self.refusal)
        try:
            for chunk in self.chunks:
                yield chunk
            if self.endless:
                await asyncio.Event().wait()
        finally:
            self.closed.set()

    async def exec(
        self, pod: dict[str, Any], container: str, command: list[str], streams: ExecStreams
    ) -> int:
        self.commands.append(command)
        if self.refusal:
            raise StreamRefusedError(self.refusal)
        try:
            match command[0]:
                case "echo":
                    await streams.write_stdout(" ".join(command[1:]).encode() + b"\n")
                    await streams.write_stderr(b"err\n")
                case "cat":
                    while data := await streams.read_stdin():
                        await streams.write_stdout(data)
                    assert await streams.read_stdin() == b""
                case "size":
                    self.sizes.append(await streams.resized())
                case "big":
                    await streams.write_stdout(b"x" * 100_000)
                case "hang":
                    await asyncio.Event().wait()
                case "exit":
                    return int(command[1])
        finally:
            self.closed.set()
        return 0

    async def attach(self, pod: dict[str, Any], container: str, streams: ExecStreams) -> None:
        self.commands.append(["attach", pod["metadata"]["name"], container])
        if self.refusal:
            raise StreamRefusedError(self.refusal)
        try:
            await streams.write_stdout(b"prompt? ")
            if streams.tty:
                self.sizes.append(await streams.resized())
            while streams.stdin and (data := await streams.read_stdin()):
                await streams.write_stdout(data)
        finally:
            self.closed.set()

    async def connect(
        self, pod: dict[str, Any], port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise StreamRefusedError("nobody listens here")

    async def usage(self) -> Usage | None:
        return None


@pytest.fixture
async def node(api: Api) -> Node:
    """A node backend of the server, with pods of one and of two containers."""
    node = Node()
    api.server.node = node
    (await api.post(PODS, pod("p"))).ok(201)
    two = pod("two", initContainers=[{"name": "first", "image": "busybox:1"}])
    two["spec"]["containers"].append({"name": "side", "image": "busybox:1"})
    (await api.post(PODS, two)).ok(201)
    for name in ("p", "two"):
        (await api.post(f"{PODS}/{name}/binding", BINDING)).ok(201)
    return node


# -- logs


async def test_logs_are_text(api: Api, node: Node) -> None:
    answer = await api.get(f"{PODS}/p/log")
    assert (answer.code, answer.body) == (200, b"one\ntwo\n")
    assert answer.headers["Content-Type"] == "text/plain"
    assert node.options == [("p", "main", LogOptions())]


async def test_log_options_reach_the_node(api: Api, node: Node) -> None:
    (
        await api.get(
            f"{PODS}/two/log",
            container="side",
            follow="true",
            tailLines="0",
            sinceTime="2027-01-15T08:00:00Z",
            timestamps="True",
            limitBytes="100",
            previous="true",
        )
    )
    (await api.get(f"{PODS}/two/log", container="first", sinceSeconds="5"))
    assert node.options == [
        (
            "two",
            "side",
            LogOptions(
                follow=True,
                tail_lines=0,
                since_time="2027-01-15T08:00:00Z",
                timestamps=True,
                limit_bytes=100,
                previous=True,
            ),
        ),
        ("two", "first", LogOptions(since_seconds=5)),
    ]


@pytest.mark.parametrize(
    "query",
    [
        {"tailLines": "-1"},
        {"limitBytes": "0"},
        {"sinceSeconds": "0"},
        {"sinceSeconds": "1", "sinceTime": "2027-01-15T08:00:00Z"},
    ],
)
async def test_invalid_log_options_are_reported(
    api: Api, node: Node, query: dict[str, str]
) -> None:
    status = (await api.get(f"{PODS}/p/log", **query)).refused(422, "Invalid")
    assert any(name in status["message"] for name in query)
    assert node.options == []


async def test_the_container_is_required_when_there_are_several(api: Api, node: Node) -> None:
    (await api.get(f"{PODS}/two/log")).refused(
        400,
        "BadRequest",
        "a container name must be specified for pod two, choose one of: [main side] "
        "or one of the init containers: [first]",
    )
    (await api.get(f"{PODS}/p/log", container="x")).refused(
        400, "BadRequest", "container x is not valid for pod p"
    )
    (await api.get(f"{PODS}/missing/log")).refused(404, "NotFound", 'pods "missing" not found')


async def test_an_error_from_the_node_is_returned(api: Api, node: Node) -> None:
    node.refusal = 'container "main" in pod "p" is waiting to start: ContainerCreating'
    (await api.get(f"{PODS}/p/log")).refused(400, "BadRequest", node.refusal)


async def test_a_pod_without_a_node_has_an_empty_log(api: Api, node: Node) -> None:
    (await api.post(PODS, pod("new"))).ok(201)
    answer = await api.get(f"{PODS}/new/log")
    assert (answer.code, answer.body) == (200, b"")


async def test_logs_without_a_node_backend_are_unavailable(api: Api, node: Node) -> None:
    api.server.node = None
    (await api.get(f"{PODS}/p/log")).refused(503, "ServiceUnavailable")


async def test_a_log_is_followed_until_the_client_disconnects(api: Api, node: Node) -> None:
    node.endless = True
    async with api.session.get(
        api.server.url + f"{PODS}/p/log", params={"follow": "true"}
    ) as response:
        assert await response.content.readexactly(8) == b"one\ntwo\n"
        assert not node.closed.is_set()
    async with asyncio.timeout(DEADLINE):
        await node.closed.wait()


async def test_a_followed_log_gets_a_response_before_its_first_line(api: Api, node: Node) -> None:
    node.endless, node.chunks = True, []
    async with api.session.get(
        api.server.url + f"{PODS}/p/log", params={"follow": "true"}
    ) as response:
        assert response.status == 200


async def test_logs_over_a_websocket(api: Api, node: Node) -> None:
    async with api.session.ws_connect(
        api.server.url + f"{PODS}/p/log", protocols=["binary.k8s.io"]
    ) as socket:
        assert socket.protocol == "binary.k8s.io"
        received = b"".join([message.data async for message in socket])
    assert received == b"one\ntwo\n"


# -- commands


class Command:
    """An open command."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def frames(self) -> list[tuple[int, bytes]]:
        """Every frame until the end; consecutive ones of the same channel are joined."""
        joined: list[tuple[int, bytes]] = []
        async with asyncio.timeout(DEADLINE):
            async for message in self.socket:
                channel, data = message.data[0], message.data[1:]
                if joined and joined[-1][0] == channel:
                    joined[-1] = (channel, joined[-1][1] + data)
                else:
                    joined.append((channel, data))
        return joined


async def run(
    api: Api, *command: str, protocol: str = "v5.channel.k8s.io", path: str = "p", **query: str
) -> Command:
    parameters = [("command", word) for word in command]
    parameters += list(({"stdout": "true", "stderr": "true"} | query).items())
    socket = await api.session.ws_connect(
        api.server.url + f"{PODS}/{path}/exec", params=parameters, protocols=[protocol]
    )
    assert socket.protocol == protocol
    return Command(socket)


SUCCESS = {"metadata": {}, "status": "Success"}


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_output_and_success(api: Api, node: Node, protocol: str) -> None:
    frames = await (await run(api, "echo", "a b", "c", protocol=protocol)).frames()
    assert frames[:2] == [(1, b"a b c\n"), (2, b"err\n")]
    assert (frames[2][0], json.loads(frames[2][1])) == (3, SUCCESS)
    assert node.commands == [["echo", "a b", "c"]]


async def test_the_oldest_protocol_gets_no_final_status(api: Api, node: Node) -> None:
    frames = await (await run(api, "echo", "a", protocol="channel.k8s.io")).frames()
    assert frames == [(1, b"a\n"), (2, b"err\n")]


async def test_exit_codes(api: Api, node: Node) -> None:
    ((channel, data),) = await (await run(api, "exit", "3")).frames()
    assert channel == 3
    status = json.loads(data)
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


async def test_only_requested_streams_are_sent(api: Api, node: Node) -> None:
    frames = await (await run(api, "echo", "a", stdout="false")).frames()
    assert [channel for channel, _ in frames] == [2, 3]
    frames = await (await run(api, "echo", "a", tty="true")).frames()
    assert [channel for channel, _ in frames] == [1, 3]


async def test_stdin_ends_when_the_client_closes_its_channel(api: Api, node: Node) -> None:
    command = await run(api, "cat", stdin="true")
    await command.socket.send_bytes(b"\x00hello ")
    await command.socket.send_bytes(b"\x00world")
    await command.socket.send_bytes(bytes([255, 0]))
    await command.socket.send_bytes(b"\x00too late")
    frames = await command.frames()
    assert frames[0] == (1, b"hello world")
    assert json.loads(frames[1][1]) == SUCCESS


async def test_stdin_that_was_not_requested_is_at_its_end(api: Api, node: Node) -> None:
    command = await run(api, "cat")
    await command.socket.send_bytes(b"\x00ignored")
    assert [channel for channel, _ in await command.frames()] == [3]


async def test_text_frames_are_stdin_too(api: Api, node: Node) -> None:
    command = await run(api, "cat", stdin="true", protocol="v4.channel.k8s.io")
    await command.socket.send_str("\x00hello")
    message = await command.socket.receive(DEADLINE)
    assert message.data == b"\x01hello"
    await command.socket.close()


async def test_terminal_sizes_reach_the_command(api: Api, node: Node) -> None:
    command = await run(api, "size", tty="true")
    await command.socket.send_bytes(b"\x04nonsense")
    await command.socket.send_bytes(b'\x04{"Width":80,"Height":24}')
    await command.frames()
    assert node.sizes == [(80, 24)]


async def test_large_output_is_split(api: Api, node: Node) -> None:
    frames = await (await run(api, "big")).frames()
    assert frames[0] == (1, b"x" * 100_000)


async def test_a_command_is_cancelled_when_its_client_disconnects(api: Api, node: Node) -> None:
    command = await run(api, "hang")
    await command.socket.close()
    async with asyncio.timeout(DEADLINE):
        await node.closed.wait()


async def test_a_command_is_cancelled_when_the_server_stops(api: Api, node: Node) -> None:
    command = await run(api, "hang")
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await api.server.stop()
    assert node.closed.is_set() or not node.commands
    await command.socket.close()


async def test_errors_after_the_handshake_are_sent_in_the_stream(api: Api, node: Node) -> None:
    node.refusal = 'container not found ("main")'
    ((channel, data),) = await (await run(api, "echo")).frames()
    assert channel == 3
    assert json.loads(data)["message"] == node.refusal


@pytest.mark.parametrize(
    ("path", "query", "text"),
    [
        ("p", {}, "you must specify at least one command"),
        ("p", {"command": "id", "container": "x"}, "container x is not valid for pod p"),
        ("two", {"command": "id"}, "a container name must be specified"),
        ("new", {"command": "id"}, "pod new does not have a host assigned"),
        ("p", {"command": "id"}, "Upgrade request required"),
    ],
)
async def test_invalid_commands_are_rejected(
    api: Api, node: Node, path: str, query: dict[str, Any], text: str
) -> None:
    (await api.post(PODS, pod("new"))).ok(201)
    for method in ("GET", "POST"):
        answer = await api.request(method, f"{PODS}/{path}/exec", **query)
        assert text in answer.refused(400, "BadRequest")["message"]
    assert node.commands == []


async def test_unknown_websocket_protocols_are_rejected(api: Api, node: Node) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await run(api, "echo", protocol="v9.channel.k8s.io")
    assert refused.value.status == 400


# -- attach


async def attached(api: Api, path: str = "p", **query: str) -> Command:
    socket = await api.session.ws_connect(
        api.server.url + f"{PODS}/{path}/attach",
        params={"stdout": "true", "stderr": "true"} | query,
        protocols=["v5.channel.k8s.io"],
    )
    return Command(socket)


async def test_attaching_to_a_container(api: Api, node: Node) -> None:
    command = await attached(api, "two", container="side", stdin="true")
    await command.socket.send_bytes(b"\x00hello")
    await command.socket.send_bytes(bytes([255, 0]))
    frames = await command.frames()
    assert frames[0] == (1, b"prompt? hello")
    assert json.loads(frames[1][1]) == SUCCESS
    assert node.commands == [["attach", "two", "side"]]


async def test_attaching_with_a_terminal(api: Api, node: Node) -> None:
    command = await attached(api, stdin="false", tty="true")
    await command.socket.send_bytes(b'\x04{"Width":80,"Height":24}')
    assert [channel for channel, _ in await command.frames()] == [1, 3]
    assert node.sizes == [(80, 24)]


async def test_a_client_detaches(api: Api, node: Node) -> None:
    command = await attached(api, stdin="true")
    assert await command.socket.receive_bytes(timeout=DEADLINE) == b"\x01prompt? "
    await command.socket.close()
    async with asyncio.timeout(DEADLINE):
        await node.closed.wait()


async def test_invalid_attach_requests_are_rejected(api: Api, node: Node) -> None:
    answer = await api.request("POST", f"{PODS}/p/attach")
    answer.refused(400, "BadRequest")
    answer = await api.get(f"{PODS}/two/attach")
    answer.refused(400, "BadRequest")
    assert "a container name must be specified for pod two" in answer.document["message"]
    (await api.get(f"{PODS}/none/attach")).refused(404, "NotFound")
    node.refusal = "container main not found in pod p_default"
    ((channel, data),) = await (await attached(api)).frames()
    assert channel == 3
    assert json.loads(data)["message"] == node.refusal
