"""Requests to one API server: headers, credentials and retries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode, urlsplit

import msgspec

from traincrew.engine.client.transport import AiohttpTransport, HttpRequest, Transport
from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.decoding import UndecodableError, decode_json
from traincrew.engine.errors import ApiError, BadAnswerError

if TYPE_CHECKING:
    from types import TracebackType

    from traincrew.engine.config import ClientConfig
    from traincrew.engine.observability import Metrics

JSON = "application/json"
# As in client-go: the server limits the rate, and a request gives up after ten refusals.
_MAX_RETRIES = 10
_MAX_RETRY_AFTER = 60.0

Parameters = Mapping[str, str | int | bool | None]


class Requester:
    """Sends requests to one API server.

    Use as an async context manager, or call `close`. There is no client-side rate limit: the
    server's flow control (429 and ``Retry-After``) is honoured instead, a bounded number of times.

    Args:
        config: Where the server is and how to authenticate.
        transport: HTTP implementation; aiohttp by default.
        user_agent: ``User-Agent`` header.
        clock: Source of time.
        metrics: Where requests are counted, if anywhere.
        guard: Called right before every request that may change something, retries included. If it
            raises, nothing is sent, and the exception reaches the caller.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        transport: Transport | None = None,
        user_agent: str = "traincrew",
        clock: Clock = SYSTEM_CLOCK,
        metrics: Metrics | None = None,
        guard: Callable[[], None] | None = None,
    ) -> None:
        self.config = config
        self.metrics = metrics
        self._transport = transport or AiohttpTransport(config)
        self._user_agent = user_agent
        self._clock = clock
        self._guard = guard
        self._server = config.server.rstrip("/")
        self._host = urlsplit(config.server).netloc.rpartition("@")[2]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def cut(self) -> None:
        """Break all connections at once; what is not on its way yet is never sent."""
        self._transport.cut()

    async def close(self) -> None:
        """Release all connections."""
        await self._transport.close()

    async def request_object(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Send any request and return the object that answers it.

        Args:
            method: As for `request`.
            path: As for `request`.
            options: As for `request`.

        Raises:
            ApiError: As for `request`, and for an answer that is no JSON object.
        """
        return as_object(await self.request(method, path, **options))

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Parameters | None = None,
        body: Any = None,
        content_type: str | None = None,
        accept: str | None = None,
        timeout: float = 60.0,  # noqa: ASYNC109 - enforced by the transport, per attempt
    ) -> bytes:
        """Send any request and return the body of its answer.

        Args:
            method: Upper case.
            path: Below the server address, percent-encoded.
            params: Query; ``None`` values are left out.
            body: Bytes are sent as they are, anything else as JSON.
            content_type: Of the body; JSON by default.
            accept: ``Accept`` header; JSON by default.
            timeout: Seconds for each attempt.

        Raises:
            ApiError: The server refused, or no answer arrived (`UnreachableError`).
        """
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        refreshed = False
        retries = 0
        while True:
            request = await self._build(
                method, path, params, accept, body=data, content_type=content_type
            )
            request.timeout = timeout
            if self._guard is not None and method != "GET":
                self._guard()
                request.guard = self._guard
            try:
                response = await self._transport.request(request)
            except ApiError:
                self._count(method, "<error>")
                raise
            self._count(method, str(response.status))
            if response.status < 300:
                return response.body
            if response.status == 401 and not refreshed:
                refreshed = True
                if await self.config.refresh_credentials(request.headers.get("Authorization")):
                    continue
            delay = self._retry_after(response.headers)
            if (
                (response.status == 429 or response.status >= 500)
                and delay is not None
                and delay <= _MAX_RETRY_AFTER
                and retries < _MAX_RETRIES
            ):
                retries += 1
                await asyncio.sleep(delay)
                continue
            raise _error(response.status, response.body, delay)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        params: Parameters | None = None,
        accept: str = JSON,
        *,
        read_timeout: float | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """GET a response that is read while it arrives: a watch or a log.

        Args:
            path: Below the server address, percent-encoded.
            params: Query; ``None`` values are left out.
            accept: ``Accept`` header.
            read_timeout: Seconds of silence after which the stream counts as dead.

        Yields:
            The chunks of the body.

        Raises:
            ApiError: The server refused, or the connection failed (`UnreachableError`).
        """
        for attempt in (1, 2):
            request = await self._build("GET", path, params, accept)
            request.timeout = None
            request.read_timeout = read_timeout
            try:
                async with self._transport.stream(request) as response:
                    self._count("GET", str(response.status))
                    if response.status < 300:
                        yield response.chunks()
                        return
                    body = await response.read()
            except ApiError as error:
                if error.code == 0:
                    self._count("GET", "<error>")
                raise
            rejected = request.headers.get("Authorization")
            if (
                response.status == 401
                and attempt == 1
                and await self.config.refresh_credentials(rejected)
            ):
                continue
            raise _error(response.status, body, self._retry_after(response.headers))

    async def _build(
        self,
        method: str,
        path: str,
        params: Parameters | None,
        accept: str | None,
        *,
        body: bytes | None = None,
        content_type: str | None = None,
    ) -> HttpRequest:
        headers = {
            "Accept": accept or JSON,
            # Decompressing watch events would cost more than it saves on a cluster network.
            "Accept-Encoding": "identity",
            "User-Agent": self._user_agent,
        }
        authorization = await self.config.authorization()
        if authorization:
            headers["Authorization"] = authorization
        if body is not None:
            headers["Content-Type"] = content_type or JSON
        return HttpRequest(method, self._server + path + _query(params), headers, body)

    def _count(self, method: str, code: str) -> None:
        if self.metrics is not None:
            self.metrics.rest_requests.inc((code, self._host, method))

    def _retry_after(self, headers: dict[str, str]) -> float | None:
        """Return the seconds of ``Retry-After``, which may also be a date (RFC 9110 10.2.3)."""
        value = headers.get("retry-after")
        if value is None:
            return None
        try:
            return max(0.0, float(value))
        except ValueError:
            pass
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        return max(0.0, (moment - self._clock.now()).total_seconds())


def as_object(body: bytes) -> dict[str, Any]:
    """Decode an answer that should be an object; an empty one is an empty object.

    Raises:
        BadAnswerError: It is something else.
    """
    try:
        value = decode_json(body) if body else {}
    except UndecodableError as error:
        raise BadAnswerError(
            f"the server answered with something that is not JSON: {error}"
        ) from error
    if not isinstance(value, dict):
        raise BadAnswerError(
            f"the server answered with {type(value).__name__} instead of an object"
        )
    return value


def _query(params: Parameters | None) -> str:
    if not params:
        return ""
    pairs = [
        (key, str(value).lower() if isinstance(value, bool) else str(value))
        for key, value in params.items()
        if value is not None
    ]
    return "?" + urlencode(pairs) if pairs else ""


def _error(status: int, body: bytes, retry_after: float | None) -> ApiError:
    """Decode an error response; a proxy in between may send something other than a Status."""
    try:
        value = decode_json(body)
    except UndecodableError:
        value = None
    if not isinstance(value, dict):
        text = body[:500].decode("utf-8", "replace").strip()
        value = {"message": text} if text else {}
    return ApiError.from_status(status, value, retry_after=retry_after)
