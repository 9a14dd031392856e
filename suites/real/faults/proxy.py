"""A proxy between an operator and the API server that can be cut and can hold back single writes.

It is an HTTP proxy in the test's own event loop. It sees every request in plain text, so a test can
hold back a particular write, kill its sender, and deliver it minutes later.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from traincrew.engine.config import load_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

_PER_CONNECTION = {"host", "connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass
class Write:
    """A write request.

    Attributes:
        method: Upper case.
        path: Without the query.
        sent: When the operator sent it, by ``time.monotonic()``.
        answered: When the API server answered; 0 until then.
        status: Status code of the response; 0 while there is none.
        body: Request body.
    """

    method: str
    path: str
    sent: float
    answered: float = 0.0
    status: int = 0
    body: bytes = b""

    @property
    def is_bookkeeping(self) -> bool:
        """Whether it concerns the Lease or an Event, and not a job."""
        return "/leases" in self.path or "/events" in self.path


@dataclass
class Held:
    """A write that is held back."""

    matches: Callable[[Write], bool]
    caught: asyncio.Event = field(default_factory=asyncio.Event)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    write: Write | None = None

    async def deliver(self) -> int:
        """Deliver it to the API server; return the status of the response."""
        assert self.write is not None, "it was never sent"
        self.let_go.set()
        async with asyncio.timeout(30):
            await self.answered.wait()
        return self.write.status


class Proxy:
    """A proxy for the API server; an async context manager.

    Args:
        kubeconfig: Kubeconfig of an administrator.
        directory: Directory for the operator's kubeconfig.
        name: Unique name of the proxy.

    Attributes:
        kubeconfig: Kubeconfig for the operator.
        writes: Every write so far.
        expired: Number of watches that the API server has ended because their version is too old.
    """

    def __init__(self, kubeconfig: Path, directory: Path, name: str) -> None:
        self._config = load_config(str(kubeconfig))
        self.kubeconfig = directory / f"{name}.kubeconfig"
        self.writes: list[Write] = []
        self.expired = 0
        self._held: list[Held] = []
        self._open = asyncio.Event()
        self._open.set()

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._session = aiohttp.ClientSession(
            self._config.server,
            connector=aiohttp.TCPConnector(limit=0, ssl=self._config.tls.context()),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            auto_decompress=False,
        )
        host, port = self._runner.addresses[0][:2]
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": {"server": f"http://{host}:{port}"}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "current-context": "proxy",
        }
        self.kubeconfig.write_text(yaml.safe_dump(document))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()
        await self._session.close()

    # -- for tests -------------------------------------------------------------

    def cut(self) -> None:
        """Stop forwarding in both directions, without closing connections."""
        self._open.clear()

    def mend(self) -> None:
        """Forward again; data in flight arrives now, late."""
        self._open.set()

    def hold(self, matches: Callable[[Write], bool]) -> Held:
        """Hold back the next write of this sort, even if its sender ends."""
        held = Held(matches)
        self._held.append(held)
        return held

    def job_writes(self, since: float = 0.0) -> list[Write]:
        """Return the writes to jobs and their children that were sent after a moment."""
        return [write for write in self.writes if write.sent > since and not write.is_bookkeeping]

    # -- forwarding ---------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        write = None
        body = await request.read()
        if request.method != "GET":
            write = Write(request.method, request.path, time.monotonic(), body=body)
            self.writes.append(write)
        await self._open.wait()
        held = self._matching(write)
        if held is not None:
            held.write = write
            held.caught.set()
            await held.let_go.wait()
        try:
            return await self._pass_on(request, body, write)
        except aiohttp.ClientError as error:
            # The API server is unreachable: close this connection, too.
            if request.transport is not None:
                request.transport.abort()
            raise web.HTTPBadGateway from error
        finally:
            if held is not None:
                held.answered.set()

    def _matching(self, write: Write | None) -> Held | None:
        for held in self._held:
            if write is not None and held.write is None and held.matches(write):
                return held
        return None

    async def _pass_on(
        self, request: web.BaseRequest, body: bytes, write: Write | None
    ) -> web.StreamResponse:
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _PER_CONNECTION
        }
        target = URL(request.raw_path, encoded=True)
        async with self._session.request(
            request.method, target, data=body or None, headers=headers
        ) as answer:
            if write is not None:
                write.status, write.answered = answer.status, time.monotonic()
            await self._open.wait()
            response = web.StreamResponse(
                status=answer.status,
                headers={
                    name: value
                    for name, value in answer.headers.items()
                    if name.lower() not in _PER_CONNECTION
                },
            )
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await self._open.wait()
                self.expired += b'"code":410' in chunk
                await response.write(chunk)
            await response.write_eof()
            return response
