"""The verbs of the Kubernetes API: plain dictionaries in, plain dictionaries out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urlencode, urlsplit

import msgspec

from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.errors import ApiError, GoneError
from traincrew.engine.transport import AiohttpTransport, HttpRequest, Transport

if TYPE_CHECKING:
    import builtins
    from types import TracebackType

    from traincrew.engine.config import ClientConfig
    from traincrew.engine.metrics import Metrics
    from traincrew.engine.resources import Resource

JSON = "application/json"
_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY_TYPE = "application/apply-patch+yaml"
# As client-go: the server decides how fast we may go, and a request gives up after ten refusals.
_MAX_RETRIES = 10
_MAX_RETRY_AFTER = 60.0

Parameters = Mapping[str, str | int | bool | None]


class Client:
    """Talks to one API server.

    Use as an async context manager, or call `close`. There is no client-side rate limit: the
    server's flow control (429 and ``Retry-After``) is honoured instead, a bounded number of times.

    Every verb raises `ApiError` or a subclass of it.

    Args:
        config: Where the server is and how to authenticate.
        transport: HTTP implementation; aiohttp by default.
        user_agent: ``User-Agent`` header.
        clock: Source of time.
        metrics: Where requests are counted, if anywhere.
        guard: Asked right before every request that may change something, retries included; what it
            raises is raised to the caller, and nothing is sent.
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

    async def close(self) -> None:
        """Release all connections."""
        await self._transport.close()

    # Verbs

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> dict[str, Any]:
        """Read one object; ``namespace`` defaults to the configuration's."""
        path = resource.path(self._namespace(resource, namespace), name, subresource)
        return _object(await self.request("GET", path))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
    ) -> dict[str, Any]:
        """Read a collection, all pages of it.

        Args:
            resource: What to list.
            namespace: ``None`` means all namespaces.
            label_selector: In the server's syntax, such as ``app=x,tier in (a,b)``.
            field_selector: In the server's syntax.
            limit: Objects per page.

        Returns:
            A list object with all ``items`` and the ``resourceVersion`` of the whole.
        """
        path = resource.path(namespace)
        params: dict[str, str | int | None] = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": limit,
        }
        pages = _object(await self.request("GET", path, params=params))
        items: builtins.list[Any] = pages.get("items") or []
        metadata = pages.get("metadata") or {}
        while token := metadata.get("continue"):
            try:
                body = await self.request("GET", path, params=params | {"continue": token})
            except GoneError:
                # The token outlived the server's history: read everything in one go, as client-go.
                body = await self.request("GET", path, params=params | {"limit": None})
                items = []
            pages = _object(body)
            items += pages.get("items") or []
            metadata = pages.get("metadata") or {}
        return pages | {"items": items}

    async def create(
        self,
        resource: Resource,
        obj: dict[str, Any],
        namespace: str | None = None,
        *,
        field_manager: str | None = None,
        subresource: str | None = None,
        name: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """POST an object; with ``name`` and ``subresource``, to that subresource (``binding``)."""
        target = self._namespace(resource, namespace, obj)
        path = resource.path(target, name, subresource)
        params: Parameters = {
            "fieldManager": field_manager,
            "dryRun": "All" if dry_run else None,
        }
        return _object(await self.request("POST", path, params=params, body=obj))

    async def apply(
        self,
        resource: Resource,
        obj: dict[str, Any],
        *,
        field_manager: str,
        force: bool = True,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Server-side apply; name and namespace are taken from the object."""
        path = resource.path(self._namespace(resource, None, obj), _name(obj), subresource)
        params: Parameters = {
            "fieldManager": field_manager,
            "force": force,
            "dryRun": "All" if dry_run else None,
        }
        body = await self.request("PATCH", path, params=params, body=obj, content_type=_APPLY_TYPE)
        return _object(body)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        patch: dict[str, Any] | builtins.list[Any],
        kind: Literal["merge", "json", "strategic"] = "merge",
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> dict[str, Any]:
        """Change parts of an object."""
        path = resource.path(self._namespace(resource, namespace), name, subresource)
        params = {"fieldManager": field_manager}
        content_type = _PATCH_TYPES[kind]
        return _object(
            await self.request("PATCH", path, params=params, body=patch, content_type=content_type)
        )

    async def replace(
        self,
        resource: Resource,
        obj: dict[str, Any],
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> dict[str, Any]:
        """PUT a whole object, which must be the complete dictionary that was read.

        Never build it from a typed view: what the view does not name would be erased.
        """
        path = resource.path(self._namespace(resource, None, obj), _name(obj), subresource)
        params = {"fieldManager": field_manager}
        return _object(await self.request("PUT", path, params=params, body=obj))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        grace_period: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> dict[str, Any]:
        """Delete one object.

        Args:
            resource: Its resource.
            name: Its name.
            namespace: Its namespace; the configuration's by default.
            propagation: What happens to its dependents.
            grace_period: Seconds; ``None`` leaves the object's own.
            uid: Delete only this incarnation; another one gives `ConflictError`.
            resource_version: Delete only this version.

        Returns:
            The object, or a ``Status``.
        """
        options: dict[str, Any] = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": propagation,
        }
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        preconditions = {
            key: value
            for key, value in (("uid", uid), ("resourceVersion", resource_version))
            if value is not None
        }
        if preconditions:
            options["preconditions"] = preconditions
        path = resource.path(self._namespace(resource, namespace), name)
        return _object(await self.request("DELETE", path, body=options))

    async def server_version(self) -> dict[str, Any]:
        """``/version``: major, minor, gitVersion."""
        return _object(await self.request("GET", "/version"))

    async def logs(
        self,
        name: str,
        namespace: str | None = None,
        *,
        container: str | None = None,
        follow: bool = False,
        tail: int | None = None,
        since_time: datetime | str | None = None,
        timestamps: bool = False,
        previous: bool = False,
    ) -> AsyncIterator[bytes]:
        """The log of a container, in pieces of any size.

        Args:
            name: Pod.
            namespace: The configuration's by default.
            container: May be left out when the pod has one.
            follow: Go on until the container ends.
            tail: Only the last lines.
            since_time: Only what is newer; RFC 3339 if a string.
            timestamps: Prefix each line with its time.
            previous: The log of the container's previous run.
        """
        if isinstance(since_time, datetime):
            since_time = since_time.astimezone(UTC).isoformat().replace("+00:00", "Z")
        from traincrew.engine.resources import PODS

        params: dict[str, str | int | None] = {
            "container": container,
            "follow": "true" if follow else None,
            "tailLines": tail,
            "sinceTime": since_time,
            "timestamps": "true" if timestamps else None,
            "previous": "true" if previous else None,
        }
        path = PODS.path(self._namespace(PODS, namespace), name, "log")
        async with self.stream(path, params, accept="*/*") as chunks:
            async for chunk in chunks:
                yield chunk

    # Requests

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
        """GET an answer that is read while it arrives: a watch, a log.

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
            # Inflating watch events would cost more than the loopback or cluster network saves.
            "Accept-Encoding": "identity",
            "User-Agent": self._user_agent,
        }
        authorization = await self.config.authorization()
        if authorization:
            headers["Authorization"] = authorization
        if body is not None:
            headers["Content-Type"] = content_type or JSON
        return HttpRequest(method, self._server + path + _query(params), headers, body)

    def _namespace(
        self, resource: Resource, namespace: str | None, obj: dict[str, Any] | None = None
    ) -> str | None:
        if not resource.namespaced:
            return None
        if namespace is None and obj is not None:
            namespace = obj.get("metadata", {}).get("namespace")
        return namespace or self.config.namespace

    def _count(self, method: str, code: str) -> None:
        if self.metrics is not None:
            self.metrics.rest_requests.inc((code, self._host, method))

    def _retry_after(self, headers: dict[str, str]) -> float | None:
        """Seconds of the ``Retry-After`` header, which may also be a date (RFC 9110 10.2.3)."""
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


def _query(params: Parameters | None) -> str:
    if not params:
        return ""
    pairs = [
        (key, str(value).lower() if isinstance(value, bool) else str(value))
        for key, value in params.items()
        if value is not None
    ]
    return "?" + urlencode(pairs) if pairs else ""


def _name(obj: dict[str, Any]) -> str:
    name = obj.get("metadata", {}).get("name")
    if not name:
        raise ValueError(f"metadata.name is missing in {obj.get('kind') or 'the object'}")
    return str(name)


def _object(body: bytes) -> dict[str, Any]:
    value = msgspec.json.decode(body) if body else {}
    if not isinstance(value, dict):
        raise ApiError(f"the server answered with {type(value).__name__} instead of an object")
    return value


def _error(status: int, body: bytes, retry_after: float | None) -> ApiError:
    """Decode an error answer; proxies in between may send something other than a Status."""
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError:
        value = None
    if not isinstance(value, dict):
        text = body[:500].decode("utf-8", "replace").strip()
        value = {"message": text} if text else {}
    return ApiError.from_status(status, value, retry_after=retry_after)
