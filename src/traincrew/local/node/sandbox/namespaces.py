"""Entering the namespaces of a running container, by commands and by ephemeral containers."""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from . import files, syscalls

if TYPE_CHECKING:
    from collections.abc import Sequence

# A process that the kernel cannot kill now must not keep a container from ending.
_KILL_TIMEOUT_SECONDS = 1.0
_PAUSE_SECONDS = 0.002
_KINDS = {
    "ipc": syscalls.CLONE_NEWIPC,
    "uts": syscalls.CLONE_NEWUTS,
    "pid": syscalls.CLONE_NEWPID,
    "mnt": syscalls.CLONE_NEWNS,
    "user": syscalls.CLONE_NEWUSER,
}


def open_one(process: dict[str, int], kind: str) -> int:
    """Open a descriptor of a namespace of a process.

    Raises:
        OSError: The process has ended.
    """
    if files.start_time(process["pid"]) != process["start"]:
        raise OSError(3, "the container has ended")
    return os.open(f"/proc/{process['pid']}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def enter(container: dict[str, Any], kinds: Sequence[str], *, user_namespace: bool) -> None:
    """Enter namespaces of a running container; the PID namespace applies to children only.

    Args:
        container: its `shim` and its `program`.
        kinds: as in `/proc/PID/ns`, in the order to enter them.
        user_namespace: enter the shim's first: it grants the capability to enter the others.

    Raises:
        OSError: It has ended.
    """
    opened = [(open_one(container["program"], kind), _KINDS[kind]) for kind in kinds]
    if user_namespace:
        opened.insert(0, (open_one(container["shim"], "user"), _KINDS["user"]))
    for descriptor, kind in opened:
        syscalls.setns(descriptor, kind)
        os.close(descriptor)


class JoinedProgram:
    """A program in the PID namespace of another container, with the processes it starts there.

    Everything it starts is in its mount namespace, which is held open: otherwise its inode number
    could be reused for that of another container. Created before the program is forked.
    """

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._mounts = -1

    def hand_over(self) -> None:
        """Send the mount namespace to the parent; called in the program."""
        mounts = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        socket.send_fds(self._theirs, [b"1"], [mounts])
        os.close(mounts)

    def receive(self) -> None:
        """Receive the mount namespace; called in the parent when the program is running."""
        self._theirs.close()
        _, descriptors, _, _ = socket.recv_fds(self._ours, 1, 1)
        self._ours.close()
        (self._mounts,) = descriptors
        os.set_inheritable(self._mounts, False)

    def kill_rest(self) -> None:
        """Kill the processes that the program started; called in the parent after its end."""
        wanted = _identity(os.fstat(self._mounts))
        deadline = time.monotonic() + _KILL_TIMEOUT_SECONDS
        while (found := _inside(wanted)) and time.monotonic() < deadline:
            for number in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(number, signal.SIGKILL)
            time.sleep(_PAUSE_SECONDS)
        os.close(self._mounts)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _inside(mounts: tuple[int, int]) -> list[int]:
    """Return the processes in a mount namespace."""
    found = []
    with os.scandir("/proc") as entries:
        names = [entry.name for entry in entries if entry.name.isdigit()]
    for name in names:
        with suppress(OSError):  # it has ended, or belongs to another user
            if _identity(os.stat(f"/proc/{name}/ns/mnt")) == mounts:
                found.append(int(name))
    return found
