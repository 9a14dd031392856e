"""Exec and attach over SPDY/3.1, as kubectl falls back to where it gets no websocket."""

import asyncio
import json
import struct
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from local.apiserver.spdy_client import SpdyClient
from local.apiserver.support import DEADLINE, PODS, Api, pod
from traincrew.local.apiserver.http.node_backend import ExecStreams, StreamRefusedError

V2, V3, V4 = "v2.channel.k8s.io", "v3.channel.k8s.io", "v4.channel.k8s.io"
OUTPUT = {"stdout": "true", "stderr": "true"}
SUCCESS = {"metadata": {}, "status": "Success"}


class Node:
    """A node backend with a few commands."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.sizes: list[tuple[int, int] | None] = []
        self.closed = asyncio.Event()
        self.release = asyncio.Event()

    async def exec(
        self, pod: dict[str, Any], container: str, command: list[str], streams: ExecStreams
    ) -> int:
        self.commands.append(command)
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
                case "hang":
                    await self.release.wait()
                case "exit":
                    return int(command[1])
                case _:
                    raise StreamRefusedError(f'"{command[0]}": executable file not found in $PATH')
        finally:
            self.closed.set()
        return 0

    async def attach(self, pod: dict[str, Any], container: str, streams: ExecStreams) -> None:
        await streams.write_stdout(b"prompt? ")
        while streams.stdin and (data := await streams.read_stdin()):
            await streams.write_stdout(data)


@pytest.fixture
async def node(api: Api) -> Node:
    api.server.node = node = Node()  # type: ignore[assignment]
    (await api.post(PODS, pod("p"))).ok(201)
    binding = {"target": {"kind": "Node", "name": "n"}}
    (await api.post(f"{PODS}/p/binding", binding)).ok(201)
    return node


class Command:
    """A command over SPDY, with the streams that kubectl opens for it."""

    def __init__(self, client: SpdyClient) -> None:
        self.client = client
        self.streams: dict[str, int] = {}

    async def open(self, *names: str) -> None:
        for name in names:
            self.streams[name] = await self.client.open(streamType=name)

    async def end(self) -> dict[str, bytes]:
        """Wait for the end of the error stream and of the outputs; return what was sent on each."""
        read = [name for name in ("error", "stdout", "stderr") if name in self.streams]
        await self.client.until_ended(*(self.streams[name] for name in read))
        sent: dict[str, bytes] = {name: self.client.data[self.streams[name]] for name in read}
        await self.client.close()
        return sent

    async def write(self, name: str, data: bytes, *, end: bool = False) -> None:
        await self.client.write(self.streams[name], data, end=end)


async def upgraded(
    api: Api, *command: str, part: str = "exec", protocol: str = V4, **query: str
) -> Command:
    words = [f"command={word}" for word in command]
    words += [f"{name}={value}" for name, value in query.items()]
    client = SpdyClient(api)
    head = await client.upgrade(f"{PODS}/p/{part}?{'&'.join(words)}", protocol)
    assert head.startswith(b"HTTP/1.1 101"), head
    assert f"X-Stream-Protocol-Version: {protocol}\r\n".encode() in head
    return Command(client)


async def run(api: Api, *command: str, protocol: str = V4, **query: str) -> Command:
    """Start a command with the streams that it is asked for."""
    query = OUTPUT | query
    started = await upgraded(api, *command, protocol=protocol, **query)
    wanted = [name for name in ("stdin", "stdout", "stderr") if query.get(name) == "true"]
    await started.open("error", *wanted)
    return started


async def test_output_and_success(api: Api, node: Node) -> None:
    command = await run(api, "echo", "a", "b")
    sent = await command.end()
    assert (sent["stdout"], sent["stderr"]) == (b"a b\n", b"err\n")
    assert json.loads(sent["error"]) == SUCCESS
    assert command.client.replied == set(command.streams.values())


async def test_the_first_protocol_of_the_client_is_chosen(api: Api, node: Node) -> None:
    client = SpdyClient(api)
    path = f"{PODS}/p/exec?command=echo&stdout=true"
    head = await client.upgrade(path, "v5.channel.k8s.io", f"{V3}, {V4}")
    assert f"X-Stream-Protocol-Version: {V3}\r\n".encode() in head
    await client.close()


async def test_exit_codes(api: Api, node: Node) -> None:
    status = json.loads((await (await run(api, "exit", "3")).end())["error"])
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


@pytest.mark.parametrize("protocol", [V2, V3])
async def test_older_protocols_get_an_error_as_text(api: Api, node: Node, protocol: str) -> None:
    assert (await (await run(api, "echo", protocol=protocol)).end())["error"] == b""
    sent = await (await run(api, "exit", "3", protocol=protocol)).end()
    assert sent["error"] == b"command terminated with non-zero exit code: exit status 3"


async def test_errors_after_the_upgrade_are_sent_in_the_error_stream(api: Api, node: Node) -> None:
    status = json.loads((await (await run(api, "missing")).end())["error"])
    assert status["message"] == '"missing": executable file not found in $PATH'


async def test_input_ends_when_the_client_closes_its_stream(api: Api, node: Node) -> None:
    command = await run(api, "cat", stdin="true")
    big = bytes(range(256)) * 8192
    sending = asyncio.create_task(_in_pieces(command, big))
    sent = await command.end()
    await sending
    assert sent["stdout"] == big
    assert json.loads(sent["error"]) == SUCCESS


async def _in_pieces(command: Command, data: bytes) -> None:
    for start in range(0, len(data), 32768):
        await command.write("stdin", data[start : start + 32768])
    await command.write("stdin", b"", end=True)


async def test_input_that_was_not_asked_for_is_at_its_end(api: Api, node: Node) -> None:
    command = await run(api, "cat")
    await command.open("stdin")
    assert json.loads((await command.end())["error"]) == SUCCESS


async def test_only_the_streams_that_were_asked_for_are_sent(api: Api, node: Node) -> None:
    sent = await (await run(api, "echo", "a", stdout="false")).end()
    assert sent == {
        "stderr": b"err\n",
        "error": json.dumps(SUCCESS, separators=(",", ":")).encode(),
    }


async def test_a_command_that_has_ended_does_not_wait_for_its_input(api: Api, node: Node) -> None:
    """Unread input must not cost the client the end of the output, as a reset of TCP would."""
    command = await run(api, "hang", stdin="true")
    for _ in range(8):
        await command.write("stdin", bytes(65536))
    node.release.set()
    await command.client.until_ended(command.streams["error"])
    for _ in range(64):
        await command.write("stdin", bytes(65536))
    assert json.loads((await command.end())["error"]) == SUCCESS


async def test_terminal_sizes_reach_the_command(api: Api, node: Node) -> None:
    command = await upgraded(api, "size", tty="true", **OUTPUT)
    await command.open("error", "stdout", "resize")
    await command.write("resize", b'nonsense}{"Width":1,"Height":1')
    await command.write("resize", b'{"Width":80,"Height":24}\n{"Width":8')
    await command.end()
    assert node.sizes == [(80, 24)]


async def test_the_second_protocol_has_no_sizes(api: Api, node: Node) -> None:
    command = await upgraded(api, "echo", protocol=V2, tty="true", **OUTPUT)
    await command.open("error", "stdout")
    assert (await command.end())["stdout"] == b"\n"


async def test_nothing_runs_before_all_streams_are_open(
    api: Api, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "traincrew.local.apiserver.http.remotecommand.spdy._OPENING_SECONDS"
    monkeypatch.setattr(module, 0.1)
    command = await upgraded(api, "echo", **OUTPUT)
    await command.open("error", "stdout")
    while await command.client.frame():
        pass  # the server ends the connection
    assert node.commands == []
    await command.client.close()


async def test_unknown_and_second_streams_are_closed(api: Api, node: Node) -> None:
    command = await upgraded(api, "cat", stdin="true", stdout="true")
    strays = [await command.client.open(streamType=name) for name in ("error", "error", "x")]
    await command.client.until_ended(*strays[1:])
    await command.open("stdin", "stdout")
    await command.write("stdin", b"x", end=True)
    await command.client.until_ended(strays[0], command.streams["stdout"])
    assert command.client.data[command.streams["stdout"]] == b"x"
    await command.client.close()


async def test_a_client_may_not_open_many_streams(api: Api, node: Node) -> None:
    command = await upgraded(api, "hang", **OUTPUT)
    numbers = [await command.client.open(streamType="x") for _ in range(40)]
    await command.client.until_reset(*numbers[16:])
    await command.client.close()


async def test_attaching(api: Api, node: Node) -> None:
    command = await upgraded(api, part="attach", stdin="true", stdout="true")
    await command.open("error", "stdin", "stdout")
    await command.write("stdin", b"hello", end=True)
    sent = await command.end()
    assert sent["stdout"] == b"prompt? hello"
    assert json.loads(sent["error"]) == SUCCESS


@pytest.mark.parametrize("goodbye", [b"", struct.pack("!IIII", 0x80030007, 8, 0, 0)])
async def test_a_command_is_cancelled_when_its_client_leaves(
    api: Api, node: Node, goodbye: bytes
) -> None:
    command = await run(api, "hang")
    await command.client.until_replied(*command.streams.values())
    if goodbye:
        await command.client.send(goodbye)
    else:
        await command.client.close()
    async with asyncio.timeout(DEADLINE):
        await node.closed.wait()
    await command.client.close()


async def test_pings_are_answered_while_a_command_runs(api: Api, node: Node) -> None:
    command = await run(api, "hang")
    await command.client.send(struct.pack("!III", 0x80030006, 4, 1))
    while not command.client.pings:
        assert await command.client.frame()
    await command.client.close()


async def test_settings_windows_and_late_headers_are_accepted(api: Api, node: Node) -> None:
    """Header blocks are one compressed text: one that is not inflated would spoil the next."""
    command = await upgraded(api, "echo", "a", **OUTPUT)
    await command.open("error")
    client, number = command.client, command.streams["error"]
    await client.send(struct.pack("!III", 0x80030004, 4, 0))
    await client.send(struct.pack("!IIII", 0x80030009, 8, number, 65536))
    block = client.deflate.compress(bytes(4)) + client.deflate.flush(zlib.Z_SYNC_FLUSH)
    await client.send(struct.pack("!III", 0x80030008, 4 + len(block), number) + block)
    await command.open("stdout", "stderr")
    assert (await command.end())["stdout"] == b"a\n"


async def test_a_role_that_may_create_only(api: Api, node: Node) -> None:
    """What training-operator's Role allows: kubectl's GET gets 403, its POST runs the command."""
    token = await _robot(api)
    path = f"{PODS}/p/exec?command=echo&command=a&stdout=true"
    refused = SpdyClient(api)
    assert (await refused.upgrade(path, V4, method="GET", token=token)).startswith(b"HTTP/1.1 403")
    await refused.close()
    client = SpdyClient(api)
    assert (await client.upgrade(path, V4, token=token)).startswith(b"HTTP/1.1 101")
    command = Command(client)
    await command.open("error", "stdout")
    assert (await command.end())["stdout"] == b"a\n"


async def _robot(api: Api) -> str:
    """Return a token of an account that may only create ``pods/exec``."""
    core, rbac = (
        "/api/v1/namespaces/default",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default",
    )
    (await api.post(f"{core}/serviceaccounts", {"metadata": {"name": "robot"}})).ok(201)
    rules = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}]
    (await api.post(f"{rbac}/roles", {"metadata": {"name": "r"}, "rules": rules})).ok(201)
    binding = {
        "metadata": {"name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
    }
    (await api.post(f"{rbac}/rolebindings", binding)).ok(201)
    answer = await api.post(f"{core}/serviceaccounts/robot/token", {"spec": {}})
    token = answer.ok(201)["status"]["token"]
    assert isinstance(token, str)
    return token


NO_PROTOCOL = "X-Stream-Protocol-Version is required"
NONE_IN_COMMON = (
    f"unable to negotiate protocol: client supports [v9 x], server accepts [{V4} {V3} {V2}]"
)


@pytest.mark.parametrize(
    ("protocols", "code", "message"),
    [([], 400, NO_PROTOCOL), (["v9", "x"], 403, NONE_IN_COMMON)],
)
async def test_protocols_that_are_not_served_are_refused(
    api: Api, node: Node, protocols: list[str], code: int, message: str
) -> None:
    client = SpdyClient(api)
    head = await client.upgrade(f"{PODS}/p/exec?command=echo&stdout=true", *protocols)
    assert head.startswith(b"HTTP/1.1 %d" % code)
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    assert json.loads(await client.reader.readexactly(length))["message"] == (
        f"unable to upgrade: {message}"
    )
    await client.close()


@pytest.fixture
async def stopped(api: Api, node: Node) -> AsyncIterator[Command]:
    command = await run(api, "hang")
    await command.client.until_replied(*command.streams.values())
    yield command
    await command.client.close()


async def test_a_command_is_cancelled_when_the_server_stops(
    api: Api, node: Node, stopped: Command
) -> None:
    async with asyncio.timeout(DEADLINE):
        await api.server.stop()
    assert node.closed.is_set()
