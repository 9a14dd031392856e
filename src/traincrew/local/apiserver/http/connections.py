"""The connections of the API server, with limits for unauthenticated ones.

Every user of this machine can connect. Until a connection has carried a request with a valid token
it counts as unauthenticated: it is closed after `UNAUTHENTICATED_SECONDS`, and the oldest one is
closed when there are more than `MAX_UNAUTHENTICATED`, so that they cannot use up the file
descriptors. The same limits hold before the end of the TLS handshake: asyncio's own server does not
count connections until then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    import socket
    import ssl

    from aiohttp.web_protocol import RequestHandler

__all__ = ["MAX_UNAUTHENTICATED", "UNAUTHENTICATED_SECONDS", "Connections"]

UNAUTHENTICATED_SECONDS = 10.0
"""From the TLS handshake to the end of the first request's headers; also for the handshake."""

MAX_UNAUTHENTICATED = 256

_ACCEPTED_AT_ONCE = 100

# What a handshake may take while others wait for its place; alone it has UNAUTHENTICATED_SECONDS.
_HANDSHAKE_SECONDS = 1.0

# Seconds until a connection is accepted again after that failed.
_ACCEPT_DELAY = 0.05

# For a peer to answer the TLS close_notify.
_TLS_SHUTDOWN_SECONDS = 2.0


class Connections(web.Server):
    """Speaks HTTP on listening sockets and on connected ones.

    Args:
        handler: handles requests.
        options: options of aiohttp's server.
    """

    def __init__(self, handler: Any, **options: Any) -> None:
        super().__init__(handler, **options)
        self._transports: dict[RequestHandler, asyncio.Transport] = {}
        self._unauthenticated: dict[RequestHandler, asyncio.TimerHandle] = {}
        self._listeners: list[socket.socket] = []
        # Handshakes, and when they began, in this order.
        self._connecting: dict[asyncio.Task[Any], float] = {}
        self._closed = False

    async def listen(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Serve the connections of a listening socket."""
        listener.setblocking(False)
        self._listeners.append(listener)
        asyncio.get_running_loop().add_reader(listener, self._accept, listener, tls)

    def _accept(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
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
            self.serve(connection, tls)

    def _make_room(self) -> float:
        """Close the oldest connection without a handshake, if there are too many.

        Returns:
            Seconds until there is room: each connection has `_HANDSHAKE_SECONDS`, however many
            others come. 0 if there is room.
        """
        if len(self._connecting) < MAX_UNAUTHENTICATED:
            return 0.0
        oldest, since = next(iter(self._connecting.items()))
        age = asyncio.get_running_loop().time() - since
        if age < _HANDSHAKE_SECONDS:
            return _HANDSHAKE_SECONDS - age
        del self._connecting[oldest]  # it ends in the next iteration of the loop
        oldest.cancel()
        return 0.0

    def _pause(self, seconds: float, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)
        loop.call_later(seconds, self._resume, listener, tls)

    def _resume(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        if not self._closed:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener, tls)

    def serve(self, connection: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Serve a connected socket; to be called on the loop's thread."""
        if self._closed:
            connection.close()
            return
        connection.setblocking(False)
        connecting = asyncio.create_task(self._connect(connection, tls))
        self._connecting[connecting] = asyncio.get_running_loop().time()
        connecting.add_done_callback(lambda task: self._connecting.pop(task, None))

    async def _connect(self, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
        options: dict[str, Any] = {}
        if tls is not None:
            options = {
                "ssl": tls,
                "ssl_handshake_timeout": UNAUTHENTICATED_SECONDS,
                "ssl_shutdown_timeout": _TLS_SHUTDOWN_SECONDS,
            }
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(self, connection, **options)
        except OSError:  # also ssl.SSLError, and a handshake that takes too long
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise

    async def close(self, seconds: float) -> None:
        """Stop listening and close all connections; requests get `seconds` to finish."""
        self._closed = True
        for listener in self._listeners:
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        self.pre_shutdown()
        await self.shutdown(seconds)
        # Closed ones may still wait for their peers to answer the TLS close_notify.
        for transport in tuple(self._transports.values()):
            transport.abort()
        await asyncio.sleep(0)

    def mark_authenticated(self, connection: RequestHandler) -> None:
        """Lift the limits from a connection whose client has authenticated."""
        if (timer := self._unauthenticated.pop(connection, None)) is not None:
            timer.cancel()

    # -- called by aiohttp

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Track a new connection."""
        super().connection_made(handler, transport)
        self._transports[handler] = transport
        loop = asyncio.get_running_loop()
        self._unauthenticated[handler] = loop.call_later(
            UNAUTHENTICATED_SECONDS, self._abort, handler
        )
        if len(self._unauthenticated) > MAX_UNAUTHENTICATED:
            self._abort(next(iter(self._unauthenticated)))

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        self.mark_authenticated(handler)
        self._transports.pop(handler, None)
        super().connection_lost(handler, exc)

    def _abort(self, handler: RequestHandler) -> None:
        self.mark_authenticated(handler)
        if (transport := self._transports.get(handler)) is not None:
            transport.abort()
