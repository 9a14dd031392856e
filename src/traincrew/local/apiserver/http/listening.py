"""Listening on a port, and finding the process that occupies it."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from traincrew.engine.serving.accepting import open_listener
from traincrew.local.sockets import holder_of

if TYPE_CHECKING:
    import socket

__all__ = ["PortInUseError", "listen"]


class PortInUseError(OSError):
    """Another program listens on the port; the message names it where permissions allow."""

    def __init__(self, address: str, port: int) -> None:
        holder = holder_of(port, address) or "another program"
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
