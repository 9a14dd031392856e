"""Listening on a port, and finding the process that occupies it."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from traincrew.engine.serving.accepting import open_listener

if TYPE_CHECKING:
    import socket

__all__ = ["PortInUseError", "listen"]


class PortInUseError(OSError):
    """Another program listens on the port; the message names it where permissions allow."""

    def __init__(self, address: str, port: int) -> None:
        holder = _listening_program(port)
        self.port = port
        self.message = f"{address}:{port} is in use by {holder}: end that program, then start again"
        super().__init__(errno.EADDRINUSE, self.message)

    def __str__(self) -> str:
        return self.message


def listen(address: str, port: int) -> socket.socket:
    """Open a listening socket.

    Args:
        address: IPv4 address of this machine.
        port: 0 chooses a free one.

    Raises:
        PortInUseError: another program listens there.
        OSError: the operating system does not allow it.
    """
    try:
        return open_listener(address, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUseError(address, port) from None
        raise


def _listening_program(port: int) -> str:
    """Return the program that listens on a port, as far as /proc shows it to this user."""
    wanted = {f"socket:[{inode}]" for inode in _inodes(port)}
    for process in Path("/proc").glob("[0-9]*") if wanted else ():
        # Processes of other users, and those that exit meanwhile, cannot be inspected.
        with suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with suppress(OSError):
                    if str(descriptor.readlink()) in wanted:
                        name = (process / "comm").read_text(errors="replace").strip()
                        return f"process {process.name} ({_printable(name)})"
    return "another program" if os.geteuid() == 0 else "a program, perhaps of another user"


def _printable(name: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in name)


def _inodes(port: int) -> set[str]:
    """Return the inodes of the sockets that listen on a port, on any address."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[1].endswith(f":{port:04X}"):
                    found.add(fields[9])
    return found
