"""The connections of the API server, with limits for unauthenticated ones.

Every user of this machine can connect. Until a connection has carried a request with a valid token
it counts as unauthenticated: it is closed after `UNAUTHENTICATED_SECONDS`, and the oldest one is
closed when there are more than `MAX_UNAUTHENTICATED`, so that they cannot use up the file
descriptors.
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
        self._listening: list[asyncio.Server] = []
        self._connecting: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def listen(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Serve the connections of a listening socket."""
        options: dict[str, Any] = {}
        if tls is not None:
            options = {
                "ssl": tls,
                "ssl_handshake_timeout": UNAUTHENTICATED_SECONDS,
                "ssl_shutdown_timeout": _TLS_SHUTDOWN_SECONDS,
            }
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self, sock=listener, backlog=1024, **options)
        self._listening.append(server)

    def serve(self, connection: socket.socket) -> None:
        """Serve a connected socket; to be called on the loop's thread."""
        if self._closed:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        connecting = loop.create_task(loop.connect_accepted_socket(self, connection))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    async def close(self, seconds: float) -> None:
        """Stop listening and close all connections; requests get `seconds` to finish."""
        self._closed = True
        for server in self._listening:
            server.close()
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
