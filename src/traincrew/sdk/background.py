"""What the servers for Python programs share: each is synchronous, and runs on its own thread.

`ApiServer` and `LocalCluster` say what starts, and how it ends.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

from traincrew.local.background import BackgroundLoop
from traincrew.sdk.audit import Audit
from traincrew.sdk.client import USER_AGENT, ClusterClient
from traincrew.sdk.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from traincrew.engine.client import Client
    from traincrew.local.apiserver.http.server import ApiServer
    from traincrew.local.inprocess import InProcessServer

T = TypeVar("T")


class BackgroundServer(ABC):
    """A server on a thread; a context manager.

    Attributes:
        audit: What clients have asked for; see `Audit`.
        faults: Faults to inject into requests; see `Faults`.
    """

    _name: ClassVar[str]
    """What it is, for the message to whom uses it before it runs."""

    def __init__(self) -> None:
        self._loop: BackgroundLoop | None = None
        self._running: InProcessServer | None = None
        self._own_client: Client | None = None
        self._client: ClusterClient | None = None
        self.audit = Audit()
        self.faults = Faults(self._expire_watches)

    # -- life cycle -------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start it; on return the API is served. If it has started, it stays as it is."""
        if self._loop is not None:
            return self
        self._check()
        self._loop = BackgroundLoop(f"traincrew-{self._name}")
        try:
            self._loop.call(self._open(self._loop))
        except BaseException:
            self.stop()
            raise
        return self

    async def _open(self, loop: BackgroundLoop) -> None:
        running = await self._start()
        running.server.audit, running.server.faults = self.audit.record, self.faults.choose
        # Of its own, so that audit and faults tell it from the controllers.
        self._own_client = running.make_client(USER_AGENT)
        self._client = ClusterClient(self._own_client, loop)
        self._running = running

    def _check(self) -> None:
        """Raise an error for arguments that cannot be used; nothing has been started."""
        return

    @abstractmethod
    async def _start(self) -> InProcessServer:
        """Start it, on its thread; `_stop` follows even if it fails."""

    @abstractmethod
    async def _stop(self) -> None:
        """End what `_start` has started, all or a part of it."""

    def stop(self) -> None:
        """End it, and everything that runs on it."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        try:
            loop.call(self._close())
        finally:
            loop.close()
            self._running = self._client = self._own_client = None

    async def _close(self) -> None:
        if self._own_client is not None:
            await self._own_client.close()
        await self._stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # -- access -----------------------------------------------------------------------------------

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig file (mode 0600), while it runs."""
        return self._started().directory / "kubeconfig"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of this process, with ``KUBECONFIG`` set, for programs to be started."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    @property
    def client(self) -> ClusterClient:
        """A client with plain dictionaries, of the administrator."""
        self._started()
        assert self._client is not None
        return self._client

    def _started(self) -> InProcessServer:
        if self._running is None:
            use = f"with {type(self).__name__}() as {self._name}:"
            raise RuntimeError(f"the {self._name} is not running; use `{use}`")
        return self._running

    def _expire_watches(self, resource: str | None) -> int:
        return self._call(lambda: self._server.expire_watches(resource))

    @property
    def _server(self) -> ApiServer:
        return self._started().server

    def _call(self, function: Callable[[], T]) -> T:
        """Call a function on the thread of the server."""
        assert self._loop is not None

        async def call() -> T:
            return function()

        return self._loop.call(call())
