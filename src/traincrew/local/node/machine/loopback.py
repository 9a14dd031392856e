"""The loopback network of this machine and its usable addresses."""

from __future__ import annotations

import errno
import socket

__all__ = ["LOOPBACK", "can_use", "is_taken"]

LOOPBACK = "127.0.0.1"


def can_use(address: str) -> bool:
    """Return whether a program on this machine can listen on an address."""
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def is_taken(address: str, port: int) -> bool:
    """Return whether another program keeps others from listening on an address and port."""
    with socket.socket() as probe:
        # Connections that have ended recently are no obstacle, as they are not for servers.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            # Two sockets may be bound to one port; only one may listen.
            probe.listen(0)
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
