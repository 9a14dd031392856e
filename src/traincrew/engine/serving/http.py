"""The HTTP server of every HTTP port."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiohttp import web

from traincrew.engine.serving.accepting import Acceptor, open_listener
from traincrew.engine.serving.serverlog import server_logger, summary

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Awaitable, Callable

    from aiohttp.web_protocol import RequestHandler

    from traincrew.engine.serving.limits import Limits

__all__ = ["HttpServer"]

_LINGERING_SECONDS = 1.0
"""How long a refused body is read and discarded, for clients that read only after sending."""

_SHUTDOWN_SECONDS = 0.5


class HttpServer(web.Server):
    """Speaks HTTP on listening sockets and on connected ones.

    It never decompresses a body, since a small one may decompress to a large one. Malformed
    requests get 400, and failures of the handler 500; both have one line in the log, at a limited
    rate and without a traceback.

    Args:
        limits: Of strangers.
        handler: Handles requests.
        options: More options of aiohttp's server.
    """

    def __init__(
        self,
        limits: Limits,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        **options: Any,
    ) -> None:
        self._acceptor = Acceptor(limits, self)
        self._answer = handler
        self._log = server_logger(limits.port)
        self._transports: dict[RequestHandler, asyncio.Transport] = {}
        chosen: dict[str, Any] = {
            "request_factory": self._new_request,
            "keepalive_timeout": limits.idle,
            "lingering_time": _LINGERING_SECONDS,
        }
        super().__init__(
            self._handle,
            access_log=None,
            auto_decompress=False,
            logger=self._log,
            **(chosen | options),
        )

    @property
    def limits(self) -> Limits:
        """The limits of strangers."""
        return self._acceptor.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._acceptor.limits = limits

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Start to listen, and return the port.

        Args:
            host: An address of this machine.
            port: The port; 0 means any free one.
            tls: With the server's certificate; None means plain HTTP.

        Raises:
            OSError: The address cannot be used.
        """
        try:
            listener = open_listener(host, port)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OSError(error.errno, f"{reason} ({host}:{port})") from error
        chosen: int = listener.getsockname()[1]
        self.listen_on(listener, tls)
        return chosen

    def listen_on(self, listener: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Serve a listening socket, which is closed by `close`."""
        self._acceptor.listen(listener, tls)

    def serve(self, connection: socket.socket) -> None:
        """Serve a socket of this process without TLS and limits; called on the loop's thread."""
        self._acceptor.serve(connection, stranger=False)

    def mark_authenticated(self, request: web.BaseRequest) -> None:
        """Lift the limits from the connection of a client that has authenticated."""
        self._acceptor.known(request.protocol)

    async def close(self, seconds: float = _SHUTDOWN_SECONDS) -> None:
        """Stop listening and close all connections; requests get `seconds` to finish."""
        await self._acceptor.close()
        self.pre_shutdown()
        await self.shutdown(seconds)
        # Closed ones may still wait for their peers to answer the TLS close_notify.
        for transport in tuple(self._transports.values()):
            transport.abort()
        await asyncio.sleep(0)

    def _new_request(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> web.BaseRequest:
        loop, most = asyncio.get_running_loop(), self.limits.body
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=most)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._acceptor.restart_timer(request.protocol, self.limits.answer)
        try:
            return await self._answer(request)
        except (web.HTTPException, asyncio.CancelledError):
            raise
        except ConnectionError:  # the client has gone
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        except Exception as error:  # noqa: BLE001 - one request must not fill the log or a terminal
            self._log.error("%s: %s", request.method, summary(error))
            response = web.Response(status=500, text="internal error\n")
            response.force_close()
            return response

    # -- called by aiohttp

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Track a new connection."""
        super().connection_made(handler, transport)
        self._transports[handler] = transport
        self._acceptor.connected(handler, transport)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        self._acceptor.lost(handler)
        self._transports.pop(handler, None)
        super().connection_lost(handler, exc)
