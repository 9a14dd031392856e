"""The lock of a state directory: whoever serves a cluster from it holds the lock for its life.

The lock is an flock of a file, which the kernel releases when the process ends, however it ends.
No child process inherits it. The file names the holder; without a holder its content means nothing.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.filelocks import is_named, try_lock

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FILE", "Holder", "StateInUseError", "StateLock", "holder_of"]

FILE = "serving.lock"

# `holder_of` takes the lock for a moment, and a new holder writes its name after taking it.
_PATIENCE_SECONDS = 0.5
_POLL_SECONDS = 0.01
_MAX_BYTES = 4096
_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Holder(NamedTuple):
    """The process that serves a cluster.

    Attributes:
        pid: 0 if it is not known.
        server: URL of its API; empty until it serves.
    """

    pid: int
    server: str = ""


class StateInUseError(Exception):
    """Another process serves a cluster from this directory."""

    def __init__(self, directory: Path, holder: Holder) -> None:
        who = f"process {holder.pid}" if holder.pid else "a process that cannot be identified"
        super().__init__(f"the cluster in {directory} is served by {who} already")
        self.holder = holder


class StateLock:
    """The lock of a state directory, held until `release`.

    Args:
        directory: An existing directory of this user.

    Raises:
        StateInUseError: Another process holds the lock.
        OSError: The lock file cannot be used.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / FILE
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            self._descriptor = os.open(path, _OPEN | os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if try_lock(self._descriptor) and is_named(path, self._descriptor):
                    break
                holder = _read(self._descriptor)
            except BaseException:
                self.release()
                raise
            self.release()
            if time.monotonic() > deadline:
                raise StateInUseError(directory, holder)
            time.sleep(_POLL_SECONDS)
        self.write("")

    def write(self, server: str) -> None:
        """Record this process as the holder.

        Args:
            server: URL of its API; empty until it serves.
        """
        content = f"{os.getpid()} {server}\n".encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, content, 0)

    def release(self) -> None:
        """Release the lock; the file stays."""
        os.close(self._descriptor)


def holder_of(directory: Path) -> Holder | None:
    """Return who serves a cluster from a directory; None if nobody does.

    Raises:
        OSError: The lock file cannot be read.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            descriptor = os.open(directory / FILE, _OPEN | os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            if try_lock(descriptor):
                return None
            holder = _read(descriptor)
        finally:
            os.close(descriptor)
        if holder.pid or time.monotonic() > deadline:
            return holder
        time.sleep(_POLL_SECONDS)


def _read(descriptor: int) -> Holder:
    text = os.pread(descriptor, _MAX_BYTES, 0).decode(errors="replace")
    number, _, server = text.strip().partition(" ")
    return Holder(int(number), server) if number.isascii() and number.isdecimal() else Holder(0)
