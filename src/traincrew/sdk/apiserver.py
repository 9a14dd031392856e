"""The API server alone for Python programs: the fastest thing that a controller can be tested with.

    with traincrew.ApiServer() as server:
        start_my_controller(kubeconfig=server.kubeconfig)
        server.client.create(my_object)
        ...
        assert server.audit.writes("deployments", client="my-controller")
        server.reset()

It has no nodes, so pods stay Pending; use `LocalCluster` where they have to run.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Self

from traincrew.cli.errors import CommandFailed
from traincrew.local.background import BackgroundLoop
from traincrew.sdk.audit import Audit
from traincrew.sdk.client import USER_AGENT, ClusterClient
from traincrew.sdk.clock import Clock
from traincrew.sdk.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from traincrew.engine.client import Client
    from traincrew.local.standalone import StandaloneServer

_FILE = re.compile(r"[^A-Za-z0-9._-]")


class ApiServer:
    """The Kubernetes API in this process, without nodes.

    Args:
        controllers: Run Kubernetes' controllers: garbage collection, Deployments, Jobs, namespaces
            and so on. Without them nothing reacts to objects, as in envtest.
        directory: Keeps the state between starts, mode 0700; None means that it ends with the
            server.
        port: 0 chooses a free one.

    Attributes:
        audit: What clients have asked for; see `Audit`.
        faults: Faults to inject into requests; see `Faults`.
        clock: The server's time; see `Clock`.

    Raises:
        CommandFailed: It cannot be started: the port or the directory is in use.
    """

    def __init__(
        self,
        *,
        controllers: bool = False,
        directory: str | os.PathLike[str] | None = None,
        port: int = 0,
    ) -> None:
        self._controllers = controllers
        self._directory = None if directory is None else Path(directory).absolute()
        self._port = port
        self._loop: BackgroundLoop | None = None
        self._server: StandaloneServer | None = None
        self._own_client: Client | None = None
        self._client: ClusterClient | None = None
        self.audit = Audit()
        self.faults = Faults(self._expire_watches)
        self.clock = Clock(self._remove_expired)

    # -- life cycle -----------------------------------------------------------------------------

    def start(self) -> Self:
        """Start it; on return the API is served. A started server stays as it is."""
        if self._loop is not None:
            return self
        self._loop = BackgroundLoop("traincrew-apiserver")
        try:
            self._loop.call(self._start())
        except BaseException:
            self.stop()
            raise
        return self

    async def _start(self) -> None:
        from traincrew.local.apiserver.storage import StorageError
        from traincrew.local.standalone import StandaloneOptions, StandaloneServer
        from traincrew.local.statelock import StateInUseError

        options = StandaloneOptions(
            directory=self._directory,
            port=self._port,
            controllers=self._controllers,
            clock=self.clock.now,
        )
        server = StandaloneServer(options)
        try:
            await server.start()
        except (StateInUseError, StorageError, OSError) as error:
            raise CommandFailed(str(error)) from error
        self._server = server
        server.server.audit, server.server.faults = self.audit.record, self.faults.choose
        self._own_client = server.make_client(USER_AGENT)
        assert self._loop is not None
        self._client = ClusterClient(self._own_client, self._loop)

    def stop(self) -> None:
        """End it."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        try:
            loop.call(self._stop())
        finally:
            loop.close()
            self._server = self._client = self._own_client = None

    async def _stop(self) -> None:
        if self._own_client is not None:
            await self._own_client.close()
        if self._server is not None:
            await self._server.stop()

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
    def url(self) -> str:
        """The address of the API."""
        return self._started().server.url

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig file (mode 0600), while the server runs."""
        return Path(self._started().kubeconfig_path)

    def kubeconfig_of(self, user: str, groups: Iterable[str] = ()) -> Path:
        """Write a kubeconfig of another user, with a client certificate; return its path.

        Args:
            user: The name; Roles decide what it may do.
            groups: The groups that it is in.

        Raises:
            ValueError: A name is empty or longer than 64 characters.
        """
        from traincrew.local.apiserver.http.kubeconfig import write_kubeconfig

        server = self._started()
        document = server.kubeconfig_of(user, groups)
        path = server.directory / f"{_FILE.sub('_', user)}.kubeconfig"
        write_kubeconfig(path, document)
        return path

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

    # -- for the next test ------------------------------------------------------------------------

    def reset(self) -> None:
        """Return to an empty server: no objects but those of a new one, no faults, no audit.

        Everything is deleted at once, whatever its finalizers: namespaces, definitions and other
        cluster-scoped objects as well. Watches stay, and report it. The clock is the machine's.
        """
        server = self._started().server
        assert self._loop is not None
        self.faults.clear()
        self.clock.reset()
        self._loop.call(_call(server.reset))
        self.audit.clear()

    def _remove_expired(self) -> None:
        if self._loop is not None and self._server is not None:
            self._loop.call(_call(self._server.clock_moved))

    def _expire_watches(self, resource: str | None) -> int:
        server = self._started().server
        assert self._loop is not None

        async def expire() -> int:
            return server.expire_watches(resource)

        return self._loop.call(expire())

    def _started(self) -> StandaloneServer:
        if self._server is None:
            raise RuntimeError("the server is not running; use `with ApiServer() as server:`")
        return self._server


async def _call(function: Callable[[], None]) -> None:
    function()
