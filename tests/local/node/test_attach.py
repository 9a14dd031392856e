"""Attaching to containers: output to clients, and input to the program."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

from local.node.support import DEADLINE
from traincrew.local.node.runtime.attaching import attach
from traincrew.local.node.runtime.forkserver import ForkServer
from traincrew.local.node.runtime.instances import Instance, Launch
from traincrew.local.node.runtime.processes import ContainerProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Client:
    """The client's end, driven by a test."""

    def __init__(self, *, stdin: bool = False, tty: bool = False) -> None:
        self.stdin, self.tty = stdin, tty
        self.out = bytearray()
        self.errors = bytearray()
        self.input: asyncio.Queue[bytes] = asyncio.Queue()
        self.sizes: asyncio.Queue[tuple[int, int] | None] = asyncio.Queue()
        self.reads = asyncio.Event()
        self.reads.set()

    async def read_stdin(self) -> bytes:
        return await self.input.get()

    async def resized(self) -> tuple[int, int] | None:
        return await self.sizes.get()

    async def write_stdout(self, data: bytes) -> None:
        await self.reads.wait()
        self.out += data

    async def write_stderr(self, data: bytes) -> None:
        self.errors += data

    def type(self, text: str) -> None:
        """Send input; empty input ends it."""
        self.input.put_nowait(text.encode())

    async def until(self, text: str) -> None:
        """Wait until the container has written this."""
        async with asyncio.timeout(DEADLINE):
            while text.encode() not in self.out:
                await asyncio.sleep(0.005)


class Containers:
    def __init__(self, directory: Path, server: ForkServer) -> None:
        self.directory, self.server = directory, server
        self.running: list[Instance] = []

    async def start(self, script: str, **options: Any) -> Instance:
        instance = Instance(self.directory / "c" / str(len(self.running)))
        environment = {"PATH": os.environ["PATH"]}
        instance.create(Launch(environment=environment))
        await self.server.run(
            ContainerProcess(
                directory=str(instance.directory),
                command=["sh", "-c", script],
                environment=environment,
                namespaces=False,
                **options,
            )
        )
        self.running.append(instance)
        return instance


@pytest.fixture
async def containers(tmp_path: Path) -> AsyncIterator[Containers]:
    server = ForkServer(tmp_path, together=True)
    # Longer than the path of a socket may be.
    containers = Containers(tmp_path / ("long" * 40), server)
    containers.directory.mkdir()
    yield containers
    for instance in containers.running:
        instance.kill()
        await asyncio.wait_for(instance.wait(), DEADLINE)
    server.close()
    assert (tmp_path / "forkserver.log").read_text() == ""


async def joined(
    instance: Instance, client: Client, *, ends_input: bool = False
) -> asyncio.Task[None]:
    task = asyncio.create_task(attach(instance, client, ends_input=ends_input))
    await asyncio.sleep(0)
    return task


async def ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait_for(task, DEADLINE)


async def detach(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_with_stdin_once_the_input_ends_with_the_first_client(containers: Containers) -> None:
    """`echo hello | kubectl run -i`."""
    instance = await containers.start("cat; echo end; echo bad >&2", stdin=True, stdin_once=True)
    client = Client(stdin=True)
    task = await joined(instance, client, ends_input=True)
    client.type("hello\n")
    client.type("")
    await ended(task)
    assert (bytes(client.out), bytes(client.errors)) == (b"hello\nend\n", b"bad\n")
    assert (await instance.wait()).exit_code == 0


async def test_with_stdin_once_a_disconnect_ends_the_input(containers: Containers) -> None:
    instance = await containers.start("cat; echo end", stdin=True, stdin_once=True)
    client = Client(stdin=True)
    task = await joined(instance, client, ends_input=True)
    client.type("hello\n")
    await client.until("hello")
    await detach(task)
    assert (await asyncio.wait_for(instance.wait(), DEADLINE)).exit_code == 0
    assert "end" in instance.log.read_text()


async def test_a_client_without_stdin_does_not_end_the_input(containers: Containers) -> None:
    instance = await containers.start("cat", stdin=True, stdin_once=True)
    looking = Client()
    task = await joined(instance, looking)
    typing = Client(stdin=True)
    other = await joined(instance, typing, ends_input=True)
    typing.type("one\n")
    await looking.until("one")
    await detach(task)
    typing.type("two\n")
    await typing.until("two")
    typing.type("")
    await ended(other)


async def test_without_stdin_once_the_input_stays_open(containers: Containers) -> None:
    """Without stdinOnce the end of the input ends the session only, as upstream."""
    instance = await containers.start("cat", stdin=True)
    for text in ("one", "two"):
        client = Client(stdin=True)
        task = await joined(instance, client)
        client.type(text + "\n")
        await client.until(text)
        client.type("")
        await ended(task)
        assert instance.is_alive()


async def test_input_that_the_program_does_not_read(containers: Containers) -> None:
    script = "sleep 0.3; wc -c"
    instance = await containers.start(script, stdin=True, stdin_once=True)
    client = Client(stdin=True)
    task = await joined(instance, client, ends_input=True)
    for _ in range(64):
        client.type("x" * 32768)
    client.type("")
    await ended(task)
    assert client.out.strip() == str(64 * 32768).encode()


async def test_a_program_that_reads_nothing(containers: Containers) -> None:
    instance = await containers.start("exec <&-; sleep 0.1", stdin=True, stdin_once=True)
    client = Client(stdin=True)
    task = await joined(instance, client, ends_input=True)
    for _ in range(16):
        client.type("x" * 32768)
    await ended(task)


async def test_without_stdin_there_is_no_input(containers: Containers) -> None:
    instance = await containers.start("cat; echo end; exec sleep 60")
    client = Client(stdin=True)
    task = await joined(instance, client, ends_input=True)
    client.type("ignored\n")
    async with asyncio.timeout(DEADLINE):
        while "end" not in instance.log.read_text():
            await asyncio.sleep(0.005)
    await detach(task)
    assert b"ignored" not in client.out


async def test_a_terminal(containers: Containers) -> None:
    instance = await containers.start("exec sh", stdin=True, stdin_once=True, tty=True)
    client = Client(stdin=True, tty=True)
    task = await joined(instance, client)
    client.sizes.put_nowait((132, 43))
    client.type("while [ \"$(stty size)\" != '43 132' ]; do :; done; echo size is $(stty size)\n")
    await client.until("size is 43 132")
    await detach(task)
    again = Client(stdin=True, tty=True)
    task = await joined(instance, again)
    again.type("echo $((40 + 2))\nexit 7\n")
    await ended(task)
    assert b"42" in again.out
    assert (await instance.wait()).exit_code == 7


async def test_prompts_are_seen_before_their_line_ends(containers: Containers) -> None:
    script = "while [ ! -e go ]; do sleep 0.02; done; printf 'name? '; read name; echo hi $name"
    directory = str(containers.directory)
    instance = await containers.start(script, stdin=True, working_directory=directory)
    client = Client(stdin=True)
    task = await joined(instance, client)
    await asyncio.sleep(0.05)
    (containers.directory / "go").touch()
    await client.until("name? ")
    client.type("you\n")
    await ended(task)
    assert client.out == b"name? hi you\n"


async def test_a_client_that_does_not_read_blocks_no_other(containers: Containers) -> None:
    """The program writes 20 MB; its log has the end, and other clients see it."""
    script = "read go; head -c 20000000 /dev/zero | tr '\\0' 'x' | fold -w 4000; echo the end"
    instance = await containers.start(script, stdin=True)
    stuck, reading = Client(), Client(stdin=True)
    stuck.reads.clear()
    tasks = [await joined(instance, client) for client in (stuck, reading)]
    reading.type("go\n")
    await ended(tasks[1])
    assert reading.out.endswith(b"the end\n")
    assert len(reading.out) > 20_000_000
    stuck.reads.set()
    await ended(tasks[0])
    assert (await instance.wait()).exit_code == 0


async def test_an_invalid_frame_ends_the_connection_only(containers: Containers) -> None:
    instance = await containers.start("cat", stdin=True)
    for nonsense in (b"\0\xff\xff\xff\xff", b"\x04\0\0\0\x01x", b"\x63\0\0\0\0", b"\3\0"):
        descriptor = os.open(instance.directory, os.O_RDONLY)
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{descriptor}/attach")
        os.close(descriptor)
        writer.write(nonsense)
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), DEADLINE) == b""
        writer.close()
    client = Client(stdin=True)
    task = await joined(instance, client)
    client.type("still here\n")
    await client.until("still here")
    await detach(task)


async def test_a_container_that_has_ended(containers: Containers) -> None:
    instance = await containers.start("true")
    await asyncio.wait_for(instance.wait(), DEADLINE)
    with pytest.raises(OSError, match=r"refused|No such"):
        await attach(instance, Client(), ends_input=False)
