"""``/healthz``, ``/readyz`` and ``/metrics`` over HTTP, for the kubelet and Prometheus."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from traincrew.engine.serving.limits import Limits

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Mapping

    from aiohttp import web
    from prometheus_client import CollectorRegistry

    from traincrew.engine.observability.metrics import Metrics
    from traincrew.engine.serving.http import HttpServer

LIMITS = Limits("health", connections=128, share=1 / 16)
METRICS_LIMITS = Limits("metrics", connections=64, share=1 / 16, least=0.25)


class Access(NamedTuple):
    """Who may read the metrics, and the TLS settings under which they say who they are.

    Attributes:
        tls: With the server's certificate.
        check: Returns the status for an ``Authorization`` header: 200, or 401, 403 or 503.
    """

    tls: ssl.SSLContext
    check: Callable[[str], Awaitable[int]]


class HealthServer:
    """Answers probes and scrapes from the event loop.

    Clients are not authenticated, so nothing they send is kept or decompressed: requests with a
    body are refused with 413 before the body is read. Connections are limited in number and time.

    Args:
        metrics: The metrics that ``/metrics`` exposes; None does not serve them.
        alive: Checks of ``/healthz`` by name, besides the implicit one that the loop responds.
        ready: Checks of ``/readyz`` by name, such as ``{"caches": lambda: manager.synced}``.
        host: Address to listen on; the kubelet's probes come from outside the pod.
        port: 0 means any free one.
        access: Serve the metrics alone, over HTTPS, to those who may read them.
    """

    def __init__(
        self,
        metrics: Metrics | None,
        *,
        alive: Mapping[str, Callable[[], bool]] | None = None,
        ready: Mapping[str, Callable[[], bool]] | None = None,
        host: str = "0.0.0.0",  # noqa: S104 - see above
        port: int = 0,
        access: Access | None = None,
    ) -> None:
        self._metrics = metrics
        self._alive = dict(alive or {})
        self._ready = dict(ready or {})
        self._host = host
        self._port = port
        self._access = access
        self._server: HttpServer | None = None
        self._listening_port = 0
        self._registry: CollectorRegistry | None = None

    @property
    def port(self) -> int:
        """The port it listens on.

        Raises:
            RuntimeError: The server is not started.
        """
        if self._server is None:
            raise RuntimeError("the health server is not started")
        return self._listening_port

    async def start(self) -> None:
        """Start to listen.

        Raises:
            OSError: The port is in use.
        """
        from traincrew.engine.serving.http import HttpServer

        server = HttpServer(LIMITS if self._access is None else METRICS_LIMITS, self._handle)
        tls = None if self._access is None else self._access.tls
        self._listening_port = await server.listen(self._host, self._port, tls)
        self._server = server

    async def stop(self) -> None:
        """Stop listening."""
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    async def run(self) -> None:
        """Listen until cancelled."""
        await self.start()
        try:
            await asyncio.Event().wait()
        finally:
            await self.stop()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        from aiohttp import web

        if request.body_exists:
            response = web.Response(status=413, text="requests with a body are not served here\n")
            response.force_close()
            return response
        answers: dict[str, Callable[[], web.Response]] = {}
        if self._access is None:
            answers["/healthz"] = lambda: _answer(self._alive)
            answers["/readyz"] = lambda: _answer(self._ready)
        if self._metrics is not None:
            answers["/metrics"] = self._expose
        answer = answers.get(request.rel_url.path)
        if answer is None:
            return web.Response(status=404, text=f"served here: {', '.join(answers)}\n")
        if request.method not in {"GET", "HEAD"}:
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        if self._access is not None:
            status = await self._access.check(request.headers.get("Authorization", ""))
            if status != 200:
                headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
                return web.Response(status=status, headers=headers)
        return answer()

    def _expose(self) -> web.Response:
        from aiohttp import web
        from prometheus_client import generate_latest

        assert self._metrics is not None
        if self._registry is None:
            self._registry = self._metrics.registry()
        text = generate_latest(self._registry)
        return web.Response(body=text, content_type="text/plain", charset="utf-8")


def _answer(checks: Mapping[str, Callable[[], bool]]) -> web.Response:
    from aiohttp import web

    results = {name: check() for name, check in checks.items()}
    lines = [f"[{'+' if good else '-'}]{name}" for name, good in results.items()]
    status = 200 if all(results.values()) else 503
    return web.Response(
        status=status, text="\n".join([*lines, "ok" if status == 200 else "failed"])
    )
