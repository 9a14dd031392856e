"""Servers of other protocols than HTTP: streams of bytes, and datagrams."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from traincrew.engine.serving.accepting import Acceptor, open_listener, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.engine.serving.limits import Limits

__all__ = ["Datagrams", "StreamServer"]

_DEFAULT_BUFFER = 1 << 16


class StreamServer:
    """Serves connections as pairs of a reader and a writer.

    Connections have no time-outs here: `accepted` knows the protocol.

    Args:
        limits: Of connections; `body` limits what the reader buffers.
        accepted: Called with each connection; has to close the writer.
        strangers: Whether the oldest connection makes way for the next. Otherwise `accepted`
            decides how many there may be.
    """

    def __init__(
        self,
        limits: Limits,
        accepted: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None],
        *,
        strangers: bool = True,
    ) -> None:
        self._accepted = accepted
        self._acceptor = Acceptor(limits, self._protocol, strangers=strangers)

    def listen(self, host: str, port: int) -> int:
        """Start to listen, and return the port.

        Args:
            host: An address of this machine.
            port: The port; 0 means any free one.

        Raises:
            OSError: The address cannot be used.
        """
        listener = open_listener(host, port)
        chosen: int = listener.getsockname()[1]
        self._acceptor.listen(listener)
        return chosen

    def close(self) -> None:
        """Stop listening; connections stay."""
        self._acceptor.stop_listening()

    def _protocol(self) -> asyncio.BaseProtocol:
        loop = asyncio.get_running_loop()
        limit = self._acceptor.limits.body or _DEFAULT_BUFFER
        reader = asyncio.StreamReader(limit=limit, loop=loop)
        return _Protocol(reader, self._accepted, loop, self._acceptor)


class _Protocol(asyncio.StreamReaderProtocol):
    def __init__(
        self,
        reader: asyncio.StreamReader,
        accepted: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None],
        loop: asyncio.AbstractEventLoop,
        acceptor: Acceptor,
    ) -> None:
        super().__init__(reader, accepted, loop=loop)
        self._acceptor = acceptor

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._acceptor.connected(self, transport)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._acceptor.lost(self)
        super().connection_lost(exc)


class Datagrams(asyncio.DatagramProtocol):
    """Receives datagrams.

    Args:
        limits: Of the port.
        received: Called with each message and its sender.
    """

    def __init__(self, limits: Limits, received: Callable[[bytes, tuple[str, int]], None]) -> None:
        self._limits = limits
        self._received = received
        self._transport: asyncio.DatagramTransport | None = None
        self._forget: Callable[[], None] = lambda: None

    async def listen(self, host: str, port: int) -> None:
        """Start to receive.

        Args:
            host: An address of this machine.
            port: The port.

        Raises:
            OSError: The address cannot be used.
        """
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, (host, port))
        self._forget = opened(self._limits, self._transport.get_extra_info("socket"), "udp")

    def send(self, message: bytes, client: tuple[str, int]) -> None:
        """Send a message, unless the port is closed."""
        if self._transport is not None:
            self._transport.sendto(message, client)

    def close(self) -> None:
        """Stop receiving."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None
            self._forget()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Pass a message on; called by the event loop."""
        self._received(data, addr)
