"""The node's end of the fork server: start containers, run commands in them.

What happens on the other end is in `traincrew.local.node.sandbox`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

__all__ = [
    "CommandProcess",
    "ContainerProcess",
    "ForkServer",
    "Mount",
    "OwnPorts",
    "Process",
    "RootFilesystem",
    "RunningCommand",
    "StartFailedError",
    "Started",
    "readable",
]

_SANDBOX = Path(__file__).parent / "sandbox"


class Mount(Struct, frozen=True, omit_defaults=True):
    """Something at a path of the container.

    Attributes:
        kind: `bind` and `overlay` (of `source`), `tmpfs` (of `size` bytes), `symlink` (to `to`),
            `file` (with `content`), `copy` (of the file `source`), `directory` (only has to exist).
        target: the path in the container.
        source: a path of the machine, without symbolic links.
    """

    kind: str
    target: str
    source: str = ""
    read_only: bool = False
    size: int = 0
    to: str = ""
    content: str = ""


class RootFilesystem(Struct, frozen=True):
    """What `sandbox.rootfs.build` needs."""

    base: str
    overlay: bool
    user_namespace: bool
    mounts: list[Mount]
    read_only: bool = False


class OwnPorts(Struct, frozen=True):
    """Ports that are the pod's own, not the machine's: see `sandbox.ownports`.

    Attributes:
        address: of the pod.
        ports: which; None for all.
    """

    address: str
    ports: list[int] | None


class ContainerProcess(Struct, frozen=True, kw_only=True, tag="run", tag_field="type"):
    """A container as its shim needs it.

    Attributes:
        directory: where the shim keeps its files; one per instance of a container.
        namespaces: False for a plain process in its own session (bare mode).
        user_namespace: enter one first, because the node is not privileged. `uid` and `gid` are
            then what the program sees as its own, and must be given.
        together: end with the fork server, however that ends.
        uid: user to become, None for the node's; likewise `gid` and the supplementary `groups`.
    """

    directory: str
    command: list[str]
    environment: dict[str, str]
    working_directory: str = "/"
    hostname: str = ""
    namespaces: bool = True
    user_namespace: bool = False
    rootfs: RootFilesystem | None = None
    uid: int | None = None
    gid: int | None = None
    groups: list[int] | None = None
    no_new_privileges: bool = False
    tty: bool = False
    together: bool = False
    own_ports: OwnPorts | None = None


class Process(Struct, frozen=True):
    """A process for good: its number, and its start time in clock ticks since boot."""

    pid: int
    start: int


class Started(Struct, frozen=True, rename="camel"):
    """A running container: its shim, its program as the machine sees it, and since when."""

    shim: Process
    program: Process | None = None
    started_at: str = ""


class CommandProcess(Struct, frozen=True, kw_only=True, tag="exec", tag_field="type"):
    """A command to run inside a container; attributes as in `ContainerProcess`."""

    shim: Process
    program: Process
    command: list[str]
    environment: dict[str, str]
    working_directory: str = "/"
    namespaces: bool = True
    user_namespace: bool = False
    uid: int | None = None
    gid: int | None = None
    groups: list[int] | None = None
    no_new_privileges: bool = False
    tty: bool = False
    own_ports: OwnPorts | None = None


class StartFailedError(Exception):
    """A program did not start; `reason` is the container state's, in the kubelet's words."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class _Answers:
    """Lines of JSON from a connection, and descriptors that come with them."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._data = b""
        self.descriptors: list[int] = []

    async def next(self) -> dict[str, Any]:
        """The next one.

        Raises:
            StartFailedError: The other end is gone.
        """
        while b"\n" not in self._data:
            await readable(self._connection)
            chunk, descriptors, _, _ = socket.recv_fds(self._connection, 65536, 1)
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            self.descriptors += descriptors
            if not chunk:
                raise StartFailedError("StartError", "the process that starts containers ended")
            self._data += chunk
        line, _, self._data = self._data.partition(b"\n")
        answer: dict[str, Any] = msgspec.json.decode(line)
        return answer


async def readable(descriptor: int | socket.socket) -> None:
    """Wait until a descriptor can be read (or, if it is a pidfd, until its process has ended)."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


class RunningCommand:
    """A command that runs in a container.

    Attributes:
        terminal: descriptor of its terminal's master side, for the caller to close; -1 if it has
            none.
    """

    def __init__(self, answers: _Answers) -> None:
        self._answers = answers
        self.terminal = answers.descriptors[0] if answers.descriptors else -1

    async def wait(self) -> int:
        """Wait for its end.

        Returns:
            Its exit code, 128 + signal number if it was killed.
        """
        try:
            answer = await self._answers.next()
        except StartFailedError:
            return 137  # whoever watched it was killed, and took it along
        return int(answer["exitCode"])


def _started(answer: dict[str, Any]) -> dict[str, Any]:
    if failed := answer.get("failed"):
        raise StartFailedError(failed["reason"], failed["message"])
    started: dict[str, Any] = answer["started"]
    return started


class ForkServer:
    """The fork server process, started when first needed and again if it was killed."""

    def __init__(self, directory: Path, *, together: bool = False) -> None:
        """Make one.

        Args:
            directory: Where it writes `forkserver.log`, for what only a defect says.
            together: End all containers when this process ends, however it ends.
        """
        self._directory = directory
        self._together = together
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._starting: set[asyncio.Task[Started]] = set()

    def start(self) -> None:
        """Start the process.

        Raises:
            OSError: It cannot be started.
        """
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-I", "-S", str(_SANDBOX), "serve", str(theirs.fileno())]
        if self._together:
            command.append("--together")
        with theirs, (self._directory / "forkserver.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={},
            )
        self._control = ours

    def close(self) -> None:
        """End the process. Containers go on, unless they were to end with this process."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.wait()
            self._process = None

    async def check(self, directory: Path) -> dict[str, Any]:
        """What isolation works here; see `sandbox.server.check`."""
        async with self._request({"type": "check", "directory": str(directory)}) as answers:
            return await answers.next()

    async def run(self, container: ContainerProcess) -> Started:
        """Start a container; on return its program runs.

        Raises:
            StartFailedError: It does not, and why. The instance then has its `exit.json`.
        """
        container = msgspec.structs.replace(container, together=self._together)
        task = asyncio.create_task(self._run(container))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        # Never left half way, whoever loses patience: see `settle`.
        return await asyncio.shield(task)

    async def _run(self, container: ContainerProcess) -> Started:
        async with self._request(container) as answers:
            return msgspec.convert(_started(await answers.next()), Started)

    async def settle(self) -> None:
        """Wait until the starts that are under way have succeeded or failed."""
        await asyncio.gather(*self._starting, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def command(
        self, command: CommandProcess, streams: Sequence[int]
    ) -> AsyncIterator[RunningCommand]:
        """Run a command in a container; leaving the context before its end kills it.

        Args:
            command: What to run.
            streams: Descriptors for its input, output and error output, which the caller closes;
                none if it is to have a terminal.

        Raises:
            StartFailedError: It does not start (on entering the context), and why.
        """
        async with self._request(command, streams) as answers:
            _started(await answers.next())
            yield RunningCommand(answers)

    @contextlib.asynccontextmanager
    async def _request(self, request: Any, streams: Sequence[int] = ()) -> AsyncIterator[_Answers]:
        body = msgspec.json.encode(request)
        data = struct.pack("!I", len(body)) + body
        connection = self._connect()
        try:
            # The descriptors travel with the first bytes; an empty socket buffer takes those.
            sent = socket.send_fds(connection, [data[:4096]], list(streams))
            if sent < len(data):  # a quick command may have ended by now
                await asyncio.get_running_loop().sock_sendall(connection, data[sent:])
            yield _Answers(connection)
        finally:
            connection.close()

    def _connect(self) -> socket.socket:
        """A connection to a fresh copy of the fork server."""
        for attempt in (1, 2):
            if self._control is None:
                self.start()
            assert self._control is not None
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    socket.send_fds(self._control, [b"1"], [theirs.fileno()])
                except OSError:
                    # Somebody killed it. It owns nothing, so another one does as well.
                    ours.close()
                    self.close()
                    if attempt == 2:
                        raise
                else:
                    ours.setblocking(False)
                    return ours
        raise AssertionError
