"""Accepts connections within limits: few strangers, each with little time.

asyncio's own server does not count connections before the end of their TLS handshake, and logs a
traceback for each that it cannot accept because no descriptor is left.
"""

from __future__ import annotations

import asyncio
import select
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from traincrew.engine.serving.limits import Limits

__all__ = ["Acceptor", "listening", "open_listener", "opened"]

_BACKLOG = 1024

_ACCEPTED_AT_ONCE = 100

# Seconds until a connection is accepted again after that failed.
_ACCEPT_DELAY = 0.05

# For a peer to answer the TLS close_notify.
_TLS_SHUTDOWN_SECONDS = 2.0

_open: dict[tuple[str, int, str], str] = {}


def listening() -> dict[tuple[str, int, str], str]:
    """Return what this process listens on: (address, port, "tcp" or "udp") -> `Limits.port`."""
    return dict(_open)


def opened(limits: Limits, end: socket.socket, protocol: str = "tcp") -> Callable[[], None]:
    """Note an open port for `listening`; return what to call when it is closed."""
    address, port, *_ = end.getsockname()
    key = (address, port, protocol)
    _open[key] = limits.port

    def closed() -> None:
        _open.pop(key, None)

    return closed


def open_listener(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    Args:
        host: An address of this machine; IPv6 ones do not serve IPv4 clients.
        port: 0 means any free one.

    Raises:
        OSError: The address cannot be used.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _is_waiting(listener: socket.socket) -> bool:
    """Return whether a connection can be accepted."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return bool(poll.poll(0))


class _Stranger:
    """A connection whose client has not authenticated.

    Attributes:
        since: When it was accepted; the time of the loop.
        close: Closes it at once.
        timer: Closes it later.
    """

    __slots__ = ("close", "since", "timer")

    def __init__(self, since: float, close: Callable[[], object]) -> None:
        self.since = since
        self.close = close
        self.timer: asyncio.TimerHandle | None = None


class Acceptor:
    """Accepts the connections of listening sockets, and limits strangers.

    The protocols call `connected`, `lost` and, where clients authenticate, `known`.

    Args:
        limits: Of all its sockets together; may be replaced at any time.
        protocol: Makes the protocol of a connection.
        strangers: Whether clients are strangers until they are `known`.
    """

    def __init__(
        self,
        limits: Limits,
        protocol: Callable[[], asyncio.BaseProtocol],
        *,
        strangers: bool = True,
    ) -> None:
        self.limits = limits
        self._has_strangers = strangers
        self._protocol = protocol
        self._listeners: dict[socket.socket, Callable[[], None]] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        # In the order in which they came.
        self._strangers: dict[asyncio.BaseProtocol, _Stranger] = {}
        self._closed = False

    def listen(self, listener: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Serve the connections of a listening socket, which is closed by `close`.

        Args:
            listener: The socket.
            tls: With the server's certificate; None means without TLS.
        """
        listener.setblocking(False)
        self._listeners[listener] = opened(self.limits, listener)
        asyncio.get_running_loop().add_reader(listener, self._accept, listener, tls)

    def serve(
        self,
        connection: socket.socket,
        tls: ssl.SSLContext | None = None,
        *,
        stranger: bool = True,
    ) -> None:
        """Serve a connected socket; to be called on the loop's thread.

        Args:
            connection: The socket.
            tls: As for `listen`.
            stranger: Whether the limits hold for it.
        """
        if self._closed:
            connection.close()
            return
        connection.setblocking(False)
        protocol = self._protocol()
        connecting = asyncio.create_task(self._connect(connection, protocol, tls))
        if stranger:
            now = asyncio.get_running_loop().time()
            self._strangers[protocol] = _Stranger(now, connecting.cancel)
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    def stop_listening(self) -> None:
        """Close the listening sockets; connections stay."""
        self._closed = True
        for listener, forget in self._listeners.items():
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
            forget()
        self._listeners.clear()

    async def close(self) -> None:
        """Close the listening sockets, and end unfinished handshakes."""
        self.stop_listening()
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)

    # -- called by the protocols

    def connected(self, protocol: asyncio.BaseProtocol, transport: asyncio.Transport) -> None:
        """The connection is established, with its handshake if it has one."""
        if (stranger := self._strangers.get(protocol)) is not None:
            stranger.close = transport.abort
            self.restart_timer(protocol, self.limits.head)

    def lost(self, protocol: asyncio.BaseProtocol) -> None:
        """The connection has ended."""
        self.known(protocol)

    def known(self, protocol: asyncio.BaseProtocol) -> None:
        """Lift the limits from a connection whose client has authenticated."""
        stranger = self._strangers.pop(protocol, None)
        if stranger is not None and stranger.timer is not None:
            stranger.timer.cancel()

    def restart_timer(self, protocol: asyncio.BaseProtocol, seconds: float | None) -> None:
        """Give a stranger this time from now on; None changes nothing."""
        stranger = self._strangers.get(protocol)
        if stranger is None or seconds is None:
            return
        if stranger.timer is not None:
            stranger.timer.cancel()
        loop = asyncio.get_running_loop()
        stranger.timer = loop.call_later(seconds, self._end, protocol)

    # -- accepting

    def _accept(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            if len(self._strangers) >= self.limits.most:
                if not _is_waiting(listener):
                    return
                if (delay := self._make_room()) > 0:
                    self._pause(delay, listener, tls)
                    return
            try:
                connection, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptor is left, or the client has gone
                self._pause(_ACCEPT_DELAY, listener, tls)
                return
            self.serve(connection, tls, stranger=self._has_strangers)

    def _make_room(self) -> float:
        """Close the oldest connection of a stranger.

        Returns:
            Seconds until that may be done; 0 if it was.
        """
        oldest = next(iter(self._strangers))
        age = asyncio.get_running_loop().time() - self._strangers[oldest].since
        if age < self.limits.least:
            return self.limits.least - age
        self._end(oldest)  # its descriptor is closed in the next iteration of the loop
        return 0.0

    def _end(self, protocol: asyncio.BaseProtocol) -> None:
        stranger = self._strangers.get(protocol)
        if stranger is not None:
            self.known(protocol)
            stranger.close()

    def _pause(self, seconds: float, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)
        loop.call_later(seconds, self._resume, listener, tls)

    def _resume(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        if listener in self._listeners:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener, tls)

    async def _connect(
        self, connection: socket.socket, protocol: asyncio.BaseProtocol, tls: ssl.SSLContext | None
    ) -> None:
        options: dict[str, Any] = {}
        if tls is not None:
            options = {
                "ssl": tls,
                "ssl_handshake_timeout": self.limits.head,
                "ssl_shutdown_timeout": _TLS_SHUTDOWN_SECONDS,
            }
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: protocol, connection, **options)
        except OSError:  # also ssl.SSLError, and a handshake that takes too long
            self.known(protocol)
            connection.close()
        except asyncio.CancelledError:
            self.known(protocol)
            connection.close()
            raise
