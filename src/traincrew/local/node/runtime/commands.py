"""Commands in running containers: probes, hooks and `kubectl exec`."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.node.runtime.processes import CommandProcess, StartFailedError
from traincrew.local.node.waiting import readable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from traincrew.local.apiserver.http.node_backend import ExecStreams
    from traincrew.local.node.runtime.forkserver import ForkServer, RunningCommand
    from traincrew.local.node.runtime.instances import Instance

__all__ = ["CommandResult", "run_command", "run_interactive"]

_CHUNK = 65536
_OUTPUT_LIMIT = 10 * 1024
# How long to wait for output of background processes that a command left.
_DRAIN_SECONDS = 0.25


class CommandResult(NamedTuple):
    """The exit code of a command, and the first 10 KiB of its output."""

    exit_code: int
    output: str


def _process(instance: Instance, command: list[str], *, tty: bool) -> CommandProcess:
    launch = instance.launch()
    processes = instance.processes()
    if processes is None or processes[1] is None:
        raise StartFailedError("StartError", "the container does not run")
    settings = launch.settings()
    if tty:
        settings["environment"] = {"TERM": "xterm", **launch.environment}
    return CommandProcess(
        shim=processes[0], program=processes[1], command=command, tty=tty, **settings
    )


async def run_command(
    fork_server: ForkServer, instance: Instance, command: list[str]
) -> CommandResult:
    """Run a command without input; cancellation kills it.

    Raises:
        StartFailedError: It cannot be started.
    """
    empty = os.open(os.devnull, os.O_RDONLY)
    read, write = os.pipe()
    output = bytearray()

    async def keep(data: bytes) -> None:
        output.extend(data[: _OUTPUT_LIMIT - len(output)])

    try:
        process = _process(instance, command, tty=False)
        async with fork_server.command(process, [empty, write, write]) as running:
            os.close(write)
            write = -1
            code = await _finish(running, [_Pump(read, keep)])
        return CommandResult(code, output.decode("utf-8", "replace"))
    finally:
        for descriptor in (empty, read, write):
            if descriptor >= 0:
                os.close(descriptor)


async def run_interactive(
    fork_server: ForkServer, instance: Instance, command: list[str], streams: ExecStreams
) -> int:
    """Run a command for a client until it ends; cancellation kills it.

    Returns:
        The exit code, 128 + signal number if it was killed.

    Raises:
        StartFailedError: It cannot be started.
    """
    process = _process(instance, command, tty=streams.tty)
    if streams.tty:
        async with fork_server.command(process, []) as running:
            return await _with_terminal(running, streams)
    return await _with_pipes(fork_server, process, streams)


async def _with_pipes(
    fork_server: ForkServer, process: CommandProcess, streams: ExecStreams
) -> int:
    async with contextlib.AsyncExitStack() as stack:
        ends = [*os.pipe(), *os.pipe(), *os.pipe()]
        in_read, in_write, out_read, out_write, error_read, error_write = ends
        closing = _Descriptors(ends)
        stack.callback(closing.close_all)
        theirs = [in_read, out_write, error_write]
        running = await stack.enter_async_context(fork_server.command(process, theirs))
        closing.close(*theirs)
        feeding = asyncio.create_task(_copy_in(in_write, streams, lambda: closing.close(in_write)))
        stack.push_async_callback(_cancel, feeding)
        pumps = [_Pump(out_read, streams.write_stdout), _Pump(error_read, streams.write_stderr)]
        return await _finish(running, pumps)


async def _with_terminal(running: RunningCommand, streams: ExecStreams) -> int:
    master = running.terminal
    # The size first: a command that is typed may query it.
    resizing = asyncio.create_task(_follow_size(master, streams))
    feeding = asyncio.create_task(_copy_in(master, streams, lambda: None))
    try:
        return await _finish(running, [_Pump(master, streams.write_stdout)])
    finally:
        await _cancel(feeding)
        await _cancel(resizing)
        os.close(master)


class _Descriptors:
    """Descriptors, each of which is closed once."""

    def __init__(self, descriptors: list[int]) -> None:
        self._open = set(descriptors)

    def close(self, *descriptors: int) -> None:
        for descriptor in descriptors:
            if descriptor in self._open:
                self._open.discard(descriptor)
                os.close(descriptor)

    def close_all(self) -> None:
        self.close(*list(self._open))


class _Pump:
    """A task that forwards the output of a command.

    Attributes:
        task: Ends at the end of the output.
        idle: Whether there is nothing to forward at present.
    """

    def __init__(self, descriptor: int, write: Callable[[bytes], Awaitable[None]]) -> None:
        self.idle = False
        self._descriptor = descriptor
        self._write = write
        os.set_blocking(descriptor, False)
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                data = os.read(self._descriptor, _CHUNK)
            except BlockingIOError:
                self.idle = True
                await readable(self._descriptor)
                self.idle = False
                continue
            except OSError:
                return  # a terminal whose last process has ended
            if not data:
                return
            await self._write(data)


async def _finish(running: RunningCommand, pumps: list[_Pump]) -> int:
    """Wait for the end of a command and of its output."""
    tasks = [pump.task for pump in pumps]
    try:
        code = await running.wait()
        while True:
            _, late = await asyncio.wait(tasks, timeout=_DRAIN_SECONDS)
            if not late:
                await asyncio.gather(*tasks)
                return code
            # Background processes may keep the pipes open for good. A client that reads slowly
            # still gets all output there is.
            if all(pump.idle for pump in pumps if pump.task in late):
                return code
    finally:
        for task in tasks:
            await _cancel(task)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _copy_in(descriptor: int, streams: ExecStreams, at_end: Callable[[], None]) -> None:
    os.set_blocking(descriptor, False)
    try:
        while data := await streams.read_stdin():
            view = memoryview(data)
            while view:
                try:
                    view = view[os.write(descriptor, view) :]
                except BlockingIOError:
                    await _writable(descriptor)
    except OSError:
        pass  # the command has closed its input
    finally:
        at_end()


async def _writable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(descriptor)


async def _follow_size(master: int, streams: ExecStreams) -> None:
    while (size := await streams.resized()) is not None:
        columns, rows = size
        with contextlib.suppress(OSError):
            fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
