"""Instances of containers: their files on disk, and how to signal and await them.

The shim of each writes its files (see `sandbox.files`), so a node can adopt an instance that it did
not start, and the end of an instance is known even if it happened while no node was running.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from traincrew.local.node.runtime.processes import Process, ProcessSettings
from traincrew.local.node.sandbox import files
from traincrew.local.node.waiting import readable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Exit", "Instance", "Launch", "instances_of"]

_POLL_SECONDS = 0.1


class Launch(ProcessSettings, frozen=True, kw_only=True):
    """How an instance was started, kept so that commands can be run in it later.

    Attributes:
        gpus: devices of this machine allocated to it.
    """

    gpus: list[int] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    """Symbolic links created for it on this machine (bare mode)."""
    stop_signal: int = signal.SIGTERM.value
    """The number of the signal that asks it to end."""


class Exit(Struct, frozen=True, rename="camel"):
    """How an instance ended, as its shim wrote it."""

    exit_code: int
    signal: int = 0
    started_at: str = ""
    finished_at: str = ""
    reason: str = ""
    message: str = ""
    disk_full: bool = False
    """Some of its output is lost, because the disk was full."""


class RootFiles(Struct, frozen=True):
    """The file system that a container's root is on, as it was at the start: in memory.

    Attributes:
        device: `st_dev` of the root; of an image, the overlay's.
        used: bytes that the node itself has written there.
    """

    device: int
    used: int


class _Processes(Struct, frozen=True, rename="camel"):
    shim: Process
    program: Process | None = None
    started_at: str = ""
    root: RootFiles | None = None


class Instance:
    """One run of a container.

    Args:
        directory: `.../containers/NAME/NUMBER`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._processes: _Processes | None = None

    @property
    def number(self) -> int:
        """0 for the first run."""
        return int(self.directory.name)

    @property
    def container_id(self) -> str:
        """A unique ID of this run."""
        container = self.directory.parent
        unique = f"{container.parent.parent.name}/{container.name}/{self.number}"
        return f"traincrew://{hashlib.sha256(unique.encode()).hexdigest()}"

    @property
    def log(self) -> Path:
        """The log file, in CRI format."""
        return self.directory / "log"

    def create(self, launch: Launch) -> None:
        """Create the directory; delete an existing one."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True, mode=0o700)
        (self.directory / "launch.json").write_bytes(msgspec.json.encode(launch))

    def launch(self) -> Launch:
        """Return how it was started."""
        return msgspec.json.decode((self.directory / "launch.json").read_bytes(), type=Launch)

    def processes(self) -> tuple[Process, Process | None] | None:
        """Return shim and program; None if the shim never started."""
        found = self._processes
        if found is None or found.program is None:
            found = self._read_processes()
        return None if found is None else (found.shim, found.program)

    def _read_processes(self) -> _Processes | None:
        try:
            data = (self.directory / "process.json").read_bytes()
        except FileNotFoundError:
            return None
        self._processes = found = msgspec.json.decode(data, type=_Processes)
        return found

    def root_files(self) -> RootFiles | None:
        """Return the file system of its root; None if nothing limits it, or before its start."""
        found = self._processes
        if found is None or found.root is None:
            found = self._read_processes()
        return None if found is None else found.root

    def exit(self) -> Exit | None:
        """Return how it ended; None if it is running or its end is unknown."""
        try:
            data = (self.directory / "exit.json").read_bytes()
        except FileNotFoundError:
            return None
        found = msgspec.json.decode(data, type=Exit)
        if self.is_out_of_memory():
            # Where the limit is exceeded just before the end, its own exit code may come first.
            return msgspec.structs.replace(
                found, reason="OOMKilled", exit_code=137, signal=signal.SIGKILL
            )
        return found

    def started_at(self) -> str:
        """Return when its shim started, RFC 3339; now, if it never did."""
        self.processes()
        return files.now() if self._processes is None else self._processes.started_at

    def is_alive(self) -> bool:
        """Return whether its shim is running."""
        processes = self.processes()
        return processes is not None and _is_running(processes[0])

    def abandon(self) -> None:
        """Prevent its start; an instance that is already running continues."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "abandoned").touch()

    def record_out_of_memory(self) -> None:
        """Record that it is about to be killed for its memory use.

        Raises:
            OSError: The disk is full, say.
        """
        (self.directory / files.OUT_OF_MEMORY).touch()

    def is_out_of_memory(self) -> bool:
        """Return whether it was killed, or has ended, above its memory limit."""
        return (self.directory / files.OUT_OF_MEMORY).exists()

    def send(self, number: int) -> None:
        """Send a signal to the program; has no effect if it has ended."""
        processes = self.processes()
        if processes is not None and processes[1] is not None and _is_running(processes[1]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(processes[1].pid, number)

    def terminate(self) -> None:
        """Ask the program to end, by the signal that its image names."""
        self.send(self.launch().stop_signal)

    def kill(self) -> None:
        """Kill all its processes at once."""
        self.send(signal.SIGKILL)

    def kill_shim(self) -> None:
        """Kill it without a record of its end: the program dies with its shim."""
        processes = self.processes()
        if processes is None:
            return
        for process in processes:
            if process is not None and _is_running(process):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)

    async def wait(self) -> Exit:
        """Wait for its end."""
        processes = self.processes()
        if processes is not None:
            await self._wait_for(processes[0])
        found = self.exit()
        if found is not None:
            return found
        # Its shim was killed, or the machine went down.
        self.kill_shim()
        reason = "OOMKilled" if self.is_out_of_memory() else "ContainerStatusUnknown"
        return Exit(
            exit_code=137,
            signal=signal.SIGKILL,
            started_at=self.started_at(),
            finished_at=files.now(),
            reason=reason,
            message="The container could not be located when the pod was terminated",
        )

    async def _wait_for(self, process: Process) -> None:
        """Wait until a process, not necessarily a child, has ended."""
        open_process: Any = getattr(os, "pidfd_open", None)
        if open_process is not None:
            try:
                descriptor = open_process(process.pid)
            except ProcessLookupError:
                return
            except OSError:
                pass  # a kernel without them
            else:
                try:
                    # The PID may have been reused already.
                    if _is_running(process):
                        await readable(descriptor)
                finally:
                    os.close(descriptor)
                return
        await self._poll(process)

    async def _poll(self, process: Process) -> None:
        if not _is_running(process):
            return
        while not (self.directory / "exit.json").exists():
            try:
                os.kill(process.pid, 0)
            except OSError:
                return
            await asyncio.sleep(_POLL_SECONDS)

    def remove(self) -> None:
        """Delete its files."""
        shutil.rmtree(self.directory, ignore_errors=True)


def instances_of(container: Path) -> list[Instance]:
    """Return the instances of a container on disk, oldest first."""
    return sorted(_instances(container), key=lambda instance: instance.number)


def _instances(container: Path) -> Iterator[Instance]:
    with contextlib.suppress(FileNotFoundError):
        for entry in container.iterdir():
            if entry.name.isdigit():
                yield Instance(entry)


def _is_running(process: Process) -> bool:
    return files.is_running(process.pid, process.start)
