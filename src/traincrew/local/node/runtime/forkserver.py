"""The client of the fork server: starts containers, runs commands in them.

The server is in `traincrew.local.node.sandbox`.
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

from traincrew.engine.limits import restore_file_limit
from traincrew.local.node import sandbox
from traincrew.local.node.runtime.processes import (
    CommandProcess,
    ContainerProcess,
    Started,
    StartFailedError,
)
from traincrew.local.node.waiting import readable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

__all__ = ["ForkServer", "RunningCommand"]

_SANDBOX = Path(sandbox.__file__).parent
_LOG_BYTES_KEPT = 1024 * 1024


class _Answers:
    """Lines of JSON from a connection, and the descriptors sent with them."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._data = b""
        self.descriptors: list[int] = []

    async def next(self) -> dict[str, Any]:
        """Return the next answer.

        Raises:
            StartFailedError: The connection was closed.
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
            return 137  # its supervising process was killed, and the command with it
        return int(answer["exitCode"])


def _started(answer: dict[str, Any]) -> dict[str, Any]:
    if failed := answer.get("failed"):
        raise StartFailedError(failed["reason"], failed["message"])
    started: dict[str, Any] = answer["started"]
    return started


class ForkServer:
    """The fork server process, started on first use and restarted if it was killed."""

    def __init__(self, directory: Path, *, together: bool = False) -> None:
        """Create a client.

        Args:
            directory: For `forkserver.log`, which only defects write to.
            together: Kill all containers when this process ends, however it ends.
        """
        self._log = directory / "forkserver.log"
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
        with theirs, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={},
            )
        # Before it starts anything.
        restore_file_limit(self._process.pid)
        self._control = ours

    def close(self) -> None:
        """Stop the process. Containers continue, unless they are to end with this process."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.wait()
            self._process = None

    async def check(self, directory: Path) -> dict[str, Any]:
        """Return the isolation that works here; see `sandbox.server.check`."""
        async with self._request({"type": "check", "directory": str(directory)}) as answers:
            return await answers.next()

    async def run(self, container: ContainerProcess) -> Started:
        """Start a container; on return its program is running.

        Raises:
            StartFailedError: It did not start, with the reason. The instance has its `exit.json`.
        """
        container = msgspec.structs.replace(container, together=self._together)
        task = asyncio.create_task(self._run(container))
        self._starting.add(task)
        task.add_done_callback(self._start_ended)
        # Not interrupted by cancellation of the caller: see `settle`.
        return await asyncio.shield(task)

    async def _run(self, container: ContainerProcess) -> Started:
        async with self._request(container) as answers:
            return msgspec.convert(_started(await answers.next()), Started)

    def _start_ended(self, task: asyncio.Task[Started]) -> None:
        self._starting.discard(task)
        if not task.cancelled():
            task.exception()  # if the caller was cancelled, nobody else asks for it

    def _bound_log(self) -> None:
        """Empty the log if it is too long; forks of the server append to it."""
        with contextlib.suppress(OSError):
            if self._log.stat().st_size > _LOG_BYTES_KEPT:
                os.truncate(self._log, 0)

    async def settle(self) -> None:
        """Wait until all starts in progress have succeeded or failed."""
        await asyncio.gather(*self._starting, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def command(
        self, command: CommandProcess, streams: Sequence[int]
    ) -> AsyncIterator[RunningCommand]:
        """Run a command in a container; it is killed when the context is left.

        Args:
            command: What to run.
            streams: Descriptors for its input, output and error output, which the caller closes;
                none if it gets a terminal.

        Raises:
            StartFailedError: It does not start (on entering the context), with the reason.
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
            # The descriptors are sent with the first bytes, which fit an empty socket buffer.
            sent = socket.send_fds(connection, [data[:4096]], list(streams))
            if sent < len(data):  # a short command may have ended by now
                await asyncio.get_running_loop().sock_sendall(connection, data[sent:])
            yield _Answers(connection)
        finally:
            connection.close()

    def _connect(self) -> socket.socket:
        """Open a connection to a new fork of the fork server."""
        self._bound_log()
        for attempt in (1, 2):
            if self._control is None:
                self.start()
            assert self._control is not None
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    socket.send_fds(self._control, [b"1"], [theirs.fileno()])
                except OSError:
                    # It was killed. It has no state, so a new one can replace it.
                    ours.close()
                    self.close()
                    if attempt == 2:
                        raise
                else:
                    ours.setblocking(False)
                    return ours
        raise AssertionError
