"""An HTTP server for clients that are not authenticated: few connections, each with little time.

Anybody who reaches the port can connect. Without limits, idle connections would use up the file
descriptors of the process, which it needs for its connections to the API server.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from traincrew.engine.observability.serverlog import server_logger

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from aiohttp.web_protocol import RequestHandler

__all__ = ["ANSWER_SECONDS", "HEADER_SECONDS", "IDLE_SECONDS", "MAX_CONNECTIONS", "BoundedServer"]

MAX_CONNECTIONS = 64
"""By default, the oldest connection is closed when there are more."""

HEADER_SECONDS = 10.0
"""From the connection to the end of the first request's headers."""

ANSWER_SECONDS = 30.0
"""From the end of a request's headers until its answer is read, or the next request has arrived."""

IDLE_SECONDS = 5.0
"""Between requests. Go clients repeat a request on a connection that was closed meanwhile."""

_HANDSHAKE_SECONDS = 5.0

_LINGERING_SECONDS = 1.0
"""How long a refused body is read and discarded, for clients that read only after sending."""

_SHUTDOWN_SECONDS = 0.5
"""At the end; nothing that is served here is worth waiting for."""


class BoundedServer(web.Server):
    """Speaks HTTP on a listening address; never decompresses a body, and logs errors only.

    Args:
        name: What its log messages call it.
        handler: Handles requests.
        max_connections: The oldest connection is closed when there are more; `MAX_CONNECTIONS` by
            default.
    """

    def __init__(
        self,
        name: str,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        *,
        max_connections: int | None = None,
    ) -> None:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            self._restart_timer(request.protocol, ANSWER_SECONDS)
            return await handler(request)

        super().__init__(
            handle,
            access_log=None,
            # A small body may decompress to a large one.
            auto_decompress=False,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=_LINGERING_SECONDS,
            logger=server_logger(name),
        )
        self._max_connections = max_connections or MAX_CONNECTIONS
        self._transports: dict[RequestHandler, asyncio.Transport] = {}
        self._timers: dict[RequestHandler, asyncio.TimerHandle] = {}
        self._listening: asyncio.Server | None = None

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Start to listen, and return the port.

        Args:
            host: The address.
            port: The port; 0 means any free one.
            tls: With the server's certificate; None means plain HTTP.

        Raises:
            OSError: The address cannot be used.
        """
        self._listening = await asyncio.get_running_loop().create_server(
            self,
            host,
            port,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else _HANDSHAKE_SECONDS,
        )
        chosen: int = self._listening.sockets[0].getsockname()[1]
        return chosen

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        if self._listening is not None:
            self._listening.close()
            self.pre_shutdown()
            await self.shutdown(_SHUTDOWN_SECONDS)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Track a new connection; called by aiohttp."""
        super().connection_made(handler, transport)
        self._transports[handler] = transport
        self._restart_timer(handler, HEADER_SECONDS)
        if len(self._transports) > self._max_connections:
            self._abort(next(iter(self._transports)))

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection; called by aiohttp."""
        self._forget(handler)
        super().connection_lost(handler, exc)

    def _restart_timer(self, handler: RequestHandler, seconds: float) -> None:
        if handler not in self._transports:
            return
        if (timer := self._timers.pop(handler, None)) is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers[handler] = loop.call_later(seconds, self._abort, handler)

    def _forget(self, handler: RequestHandler) -> asyncio.Transport | None:
        if (timer := self._timers.pop(handler, None)) is not None:
            timer.cancel()
        return self._transports.pop(handler, None)

    def _abort(self, handler: RequestHandler) -> None:
        # The descriptor is closed one iteration of the loop later.
        if (transport := self._forget(handler)) is not None:
            transport.abort()
