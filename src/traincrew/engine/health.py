"""``/healthz``, ``/readyz`` and ``/metrics`` over HTTP, for kubelet and Prometheus."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aiohttp import web
    from prometheus_client import CollectorRegistry

    from traincrew.engine.metrics import Metrics


class HealthServer:
    """Answers probes while the event loop turns.

    Args:
        metrics: What ``/metrics`` shows.
        alive: Checks of ``/healthz`` by name; that the loop answers at all is one already.
        ready: Checks of ``/readyz`` by name, such as ``{"caches": lambda: manager.synced}``.
        host: Address to listen on; kubelet's probes come from outside the pod.
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
            RuntimeError: Not started.
        """
        if self._runner is None:
            raise RuntimeError("the health server is not started")
        port: int = self._runner.addresses[0][1]
        return port

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: The port is taken.
        """
        from aiohttp import web

        application = web.Application()
        application.router.add_get("/healthz", self._answer_alive)
        application.router.add_get("/readyz", self._answer_ready)
        application.router.add_get("/metrics", self._expose)
        # Probes are short; nothing is worth waiting for at the end.
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
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


async def _answer(checks: Mapping[str, Callable[[], bool]]) -> web.Response:
    from aiohttp import web

    results = {name: check() for name, check in checks.items()}
    lines = [f"[{'+' if good else '-'}]{name}" for name, good in results.items()]
    status = 200 if all(results.values()) else 503
    return web.Response(
        status=status, text="\n".join([*lines, "ok" if status == 200 else "failed"])
    )
