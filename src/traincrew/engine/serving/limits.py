"""What strangers may take of a port."""

from __future__ import annotations

import resource
from typing import NamedTuple

__all__ = ["Limits"]


class Limits(NamedTuple):
    """The limits of one listening port, or of all ports of one kind.

    A stranger is a client that has not authenticated. Where clients never do, all are strangers.

    Attributes:
        port: What the list in `docs/design/security.md` and log messages call it.
        connections: Of strangers at a time; the oldest one makes way for the next.
        share: Of the descriptors of the process, at most. The shares of the ports that one process
            opens leave some for its own work.
        descriptors: That one connection needs.
        least: Seconds that a connection has, however many others come.
        head: Seconds for the TLS handshake, and from there to the end of the first request's
            headers; None if the protocol has neither.
        answer: Seconds from the end of a request's headers until its answer is read; None if
            `head` covers that as well.
        idle: Seconds between requests.
        body: Bytes of a body or message.
    """

    port: str
    connections: int
    share: float
    descriptors: int = 1
    least: float = 0.1
    head: float | None = 10.0
    answer: float | None = 30.0
    idle: float = 5.0
    body: int = 0

    @property
    def most(self) -> int:
        """Connections at a time, with the descriptors that this process may have."""
        available = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if available == resource.RLIM_INFINITY:
            return self.connections
        return max(2, min(self.connections, int(available * self.share) // self.descriptors))
