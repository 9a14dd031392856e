"""The loopback network of this machine and its usable addresses."""

from __future__ import annotations

import socket

__all__ = ["LOOPBACK", "can_use"]

LOOPBACK = "127.0.0.1"


def can_use(address: str) -> bool:
    """Return whether a program on this machine can listen on an address."""
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
