"""HTTP behind a small protocol: aiohttp in production, a scripted server in tests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import weakref
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from msgspec import Struct, field

from traincrew.engine.client.bounds import MAX_BODY, MAX_ERROR, read_whole, refuse_encoding
from traincrew.engine.errors import BadAnswerError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import SimpleNamespace

    import aiohttp

    from traincrew.engine.config import ClientConfig


_KEEPALIVE_SECONDS = 50.0
_NO_LINGERING = struct.pack("ii", 1, 0)


class HttpRequest(Struct):
    """One HTTP request.

    Attributes:
        method: Upper case.
        url: Absolute, already percent-encoded.
        headers: Names in their usual spelling.
        body: Bytes to send, if any.
        timeout: Seconds for the whole exchange; ``None`` for streams.
        read_timeout: Seconds without a single byte from the server after which a stream is dead.
        guard: Called once there is a connection, right before the request is sent. If it raises,
            nothing is sent, and the exception reaches the caller.
    """

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float | None = 60.0
    read_timeout: float | None = None
    guard: Callable[[], None] | None = None


class HttpResponse(Struct):
    """A complete response. Header names are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpStream(Protocol):
    """A response that is read while it arrives. Header names are lower case."""

    status: int
    headers: dict[str, str]

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, in pieces of any size.

        Raises:
            UnreachableError: The connection broke, or was silent longer than ``read_timeout``.
        """
        ...

    async def read(self) -> bytes:
        """Return the body of an error response, or of a very long one nothing."""
        ...


class Transport(Protocol):
    """Sends requests. Implementations raise `UnreachableError` when no response arrives."""

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Send a request and read the whole response."""
        ...

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        """Send a request and yield the response, to be read as it arrives."""
        ...

    def cut(self) -> None:
        """Break all connections at once; what is not on its way yet is never sent.

        Their requests fail. Later ones use other connections.
        """
        ...

    async def close(self) -> None:
        """Release all connections."""
        ...


def origin(url: str) -> str:
    """Return scheme, host and port of a URL. The path may be a secret and must not be shown."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{parts.port}" if parts.port else f"{parts.scheme}://{host}"


class _AiohttpStream:
    """`HttpStream` over an aiohttp response."""

    def __init__(self, response: aiohttp.ClientResponse, url: str) -> None:
        self.status = response.status
        self.headers = _lower(response)
        self._response = response
        self._url = url

    async def chunks(self) -> AsyncIterator[bytes]:
        import aiohttp

        read = self._response.content.readany
        try:
            while chunk := await read():
                yield chunk
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise unreachable(self._url, error) from error

    async def read(self) -> bytes:
        try:
            return await read_whole(self.chunks(), MAX_ERROR, self.headers.get("content-length"))
        except BadAnswerError:
            return b""


def _lower(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def unreachable(url: str, error: BaseException) -> UnreachableError:
    """Describe a failed request without revealing the path of the URL."""
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        return UnreachableError(f"no answer from {origin(url)} in time")
    text = _reason(error).replace(url, origin(url)) or type(error).__name__
    return UnreachableError(f"cannot reach {origin(url)}: {text}")


def _reason(error: BaseException) -> str:
    """Return why a connection failed; texts of aiohttp show its own objects."""
    import ssl

    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {cause.verify_message}"
    if isinstance(cause, ConnectionError) and cause.errno:
        return os.strerror(cause.errno).lower()
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause)


def _guarding() -> aiohttp.TraceConfig:
    """Call the guard of a request when it is about to be sent.

    aiohttp calls the hook with the headers, before it writes them, and closes the connection if
    the hook raises.
    """
    import aiohttp

    async def sending(_session: object, context: SimpleNamespace, _parameters: object) -> None:
        if (guard := context.trace_request_ctx) is not None:
            guard()

    trace = aiohttp.TraceConfig()
    trace.on_request_headers_sent.append(sending)
    return trace


class AiohttpTransport:
    """HTTP over aiohttp, without a limit on connections: every watch holds one open.

    Args:
        config: How to reach the server.
        delivery_limit: Seconds after which the kernel drops data that was sent but not acknowledged
            (``TCP_USER_TIMEOUT``, Linux only). Without it, a network that recovers after minutes
            delivers what was written before it failed, even if this process stopped long ago.
    """

    def __init__(self, config: ClientConfig, *, delivery_limit: float | None = None) -> None:
        self._config = config
        self._delivery_limit = delivery_limit
        self._session: aiohttp.ClientSession | None = None
        self._hanging_up: set[asyncio.Future[None]] = set()
        self._proxy = config.proxy_for_server()
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                connector=self._connector(),
                trace_configs=[_guarding()],
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                read_bufsize=2**18,
            )
        return self._session

    def _connector(self) -> aiohttp.BaseConnector:
        import aiohttp

        if (dial := self._config.dial) is not None:
            from traincrew.engine.client.dialing import DialingConnector

            return DialingConnector(
                lambda: self._known(dial()), limit=0, keepalive_timeout=_KEEPALIVE_SECONDS
            )
        return aiohttp.TCPConnector(
            limit=0, keepalive_timeout=_KEEPALIVE_SECONDS, socket_factory=self._socket
        )

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        option = getattr(socket, "TCP_USER_TIMEOUT", None)
        if self._delivery_limit is not None and option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, int(self._delivery_limit * 1000))
        return self._known(made)

    def _known(self, connection: socket.socket) -> socket.socket:
        self._sockets.add(connection)
        return connection

    def cut(self) -> None:
        """Break all connections at once; what is not on its way yet is never sent.

        Closing them would send what asyncio and the kernel still have. Without lingering, the
        kernel drops its part and resets the connection, which ends a request that the server has
        received and has not begun to apply.
        """
        for connection in list(self._sockets):
            with contextlib.suppress(OSError):  # it is closed, or not connected yet
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
                connection.shutdown(socket.SHUT_RDWR)

    async def _send(self, request: HttpRequest) -> aiohttp.ClientResponse:
        import aiohttp
        from yarl import URL

        tls = self._config.tls
        try:
            return await self._open().request(
                request.method,
                URL(request.url, encoded=True),
                headers=request.headers,
                data=request.body,
                allow_redirects=False,
                proxy=self._proxy,
                ssl=tls.context() if request.url.startswith("https:") else True,
                server_hostname=tls.server_name,
                trace_request_ctx=request.guard,
                timeout=aiohttp.ClientTimeout(
                    total=request.timeout,
                    sock_connect=min(request.timeout or 30.0, 30.0),
                    sock_read=request.read_timeout,
                ),
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise unreachable(request.url, error) from error

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Send a request and read the whole response.

        Raises:
            UnreachableError: No complete answer arrived.
            BadAnswerError: It is compressed or too long; the connection is closed.
        """
        async with await self._send(request) as response:
            stream = _AiohttpStream(response, request.url)
            refuse_encoding(stream.headers)
            length = stream.headers.get("content-length")
            body = await read_whole(stream.chunks(), MAX_BODY, length)
            return HttpResponse(stream.status, stream.headers, body)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
        """Send a request and yield the response, to be read as it arrives.

        Raises:
            UnreachableError: No answer arrived.
            BadAnswerError: It is compressed.
        """
        response = await self._send(request)
        try:
            # Exceptions of the caller must pass unchanged.
            stream = _AiohttpStream(response, request.url)
            refuse_encoding(stream.headers)
            yield stream
        finally:
            self._hang_up(response)

    def _hang_up(self, response: aiohttp.ClientResponse) -> None:
        """Close a response's connection now, without the TLS shutdown.

        A server that cannot be reached does not answer the shutdown, and the socket would stay open
        meanwhile, even after `close`.
        """
        connection = response.connection
        protocol = connection.protocol if connection is not None else None
        if protocol is not None:
            if (closed := protocol.closed) is not None:
                self._hanging_up.add(closed)
                closed.add_done_callback(self._has_hung_up)
            protocol.abort()
        response.close()

    def _has_hung_up(self, closed: asyncio.Future[None]) -> None:
        self._hanging_up.discard(closed)
        if not closed.cancelled():
            closed.exception()  # retrieved, so that asyncio does not log it

    async def close(self) -> None:
        """Release all connections."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()
            await asyncio.gather(*self._hanging_up, return_exceptions=True)
