"""``/healthz``, ``/readyz`` and ``/metrics`` over HTTP, for the kubelet and Prometheus."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from traincrew.engine.observability.serverlog import server_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from aiohttp import web
    from prometheus_client import CollectorRegistry

    from traincrew.engine.observability.metrics import Metrics

# Seconds a refused body is still read and discarded, for clients that read only after sending.
_LINGERING_SECONDS = 1.0

# Seconds a request may take to arrive; longer than the default periods of probes and scrapes.
_IDLE_SECONDS = 75.0


class HealthServer:
    """Answers probes and scrapes from the event loop.

    Clients are not authenticated, so nothing they send is kept or decompressed: requests with a
    body are refused with 413 before the body is read.

    Args:
        metrics: The metrics that ``/metrics`` exposes.
        alive: Checks of ``/healthz`` by name, besides the implicit one that the loop responds.
        ready: Checks of ``/readyz`` by name, such as ``{"caches": lambda: manager.synced}``.
        host: Address to listen on; the kubelet's probes come from outside the pod.
        port: 0 means any free one.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        alive: Mapping[str, Callable[[], bool]] | None = None,
        ready: Mapping[str, Callable[[], bool]] | None = None,
        host: str = "0.0.0.0",  # noqa: S104 - see above
        port: int = 0,
    ) -> None:
        self._metrics = metrics
        self._alive = dict(alive or {})
        self._ready = dict(ready or {})
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None
        self._registry: CollectorRegistry | None = None

    @property
    def port(self) -> int:
        """The port it listens on.

        Raises:
            RuntimeError: The server is not started.
        """
        if self._runner is None:
            raise RuntimeError("the health server is not started")
        port: int = self._runner.addresses[0][1]
        return port

    async def start(self) -> None:
        """Start to listen.

        Raises:
            OSError: The port is in use.
        """
        from aiohttp import web

        application = web.Application(middlewares=[web.middleware(_refuse_bodies)])
        application.router.add_get("/healthz", self._answer_alive)
        application.router.add_get("/readyz", self._answer_ready)
        application.router.add_get("/metrics", self._expose)
        # Probes are short; nothing is worth waiting for at the end.
        runner = web.AppRunner(
            application,
            access_log=None,
            shutdown_timeout=0.5,
            # The parser would decompress bodies that are never read.
            auto_decompress=False,
            lingering_time=_LINGERING_SECONDS,
            keepalive_timeout=_IDLE_SECONDS,
            logger=server_logger("health"),
        )
        await runner.setup()
        self._runner = runner
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def run(self) -> None:
        """Listen until cancelled."""
        await self.start()
        try:
            await asyncio.Event().wait()
        finally:
            await self.stop()

    async def _answer_alive(self, _request: web.Request) -> web.Response:
        return await _answer(self._alive)

    async def _answer_ready(self, _request: web.Request) -> web.Response:
        return await _answer(self._ready)

    async def _expose(self, _request: web.Request) -> web.Response:
        from aiohttp import web
        from prometheus_client import generate_latest

        if self._registry is None:
            self._registry = self._metrics.registry()
        text = generate_latest(self._registry)
        return web.Response(body=text, content_type="text/plain", charset="utf-8")


async def _refuse_bodies(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    from aiohttp import web

    if not request.body_exists:
        return await handler(request)
    response = web.Response(status=413, text="requests with a body are not served here\n")
    response.force_close()
    return response


async def _answer(checks: Mapping[str, Callable[[], bool]]) -> web.Response:
    from aiohttp import web

    results = {name: check() for name, check in checks.items()}
    lines = [f"[{'+' if good else '-'}]{name}" for name, good in results.items()]
    status = 200 if all(results.values()) else 503
    return web.Response(
        status=status, text="\n".join([*lines, "ok" if status == 200 else "failed"])
    )
