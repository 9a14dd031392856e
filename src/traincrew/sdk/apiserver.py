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

import re
from pathlib import Path
from typing import TYPE_CHECKING

from traincrew.cli.errors import CommandFailed
from traincrew.sdk.background import BackgroundServer
from traincrew.sdk.clock import Clock

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from traincrew.local.standalone import StandaloneServer

_FILE = re.compile(r"[^A-Za-z0-9._-]")


class ApiServer(BackgroundServer):
    """The Kubernetes API in this process, without nodes.

    Args:
        controllers: Run Kubernetes' controllers: garbage collection, Deployments, Jobs, namespaces
            and so on. Without them nothing reacts to objects, as in envtest.
        directory: Keeps the state between starts, mode 0700; None means that it ends with the
            server.
        port: 0 chooses a free one.

    Attributes:
        clock: The server's time; see `Clock`.

    Raises:
        CommandFailed: It cannot be started: the port or the directory is in use.
    """

    _name = "server"

    def __init__(
        self,
        *,
        controllers: bool = False,
        directory: str | os.PathLike[str] | None = None,
        port: int = 0,
    ) -> None:
        super().__init__()
        self._controllers = controllers
        self._directory = None if directory is None else Path(directory).absolute()
        self._port = port
        self._standalone: StandaloneServer | None = None
        self.clock = Clock(self._remove_expired)

    async def _start(self) -> StandaloneServer:
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
        self._standalone = server
        return server

    async def _stop(self) -> None:
        standalone, self._standalone = self._standalone, None
        if standalone is not None:
            await standalone.stop()

    # -- access -----------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address of the API."""
        return self._server.url

    def kubeconfig_of(self, user: str, groups: Iterable[str] = ()) -> Path:
        """Write a kubeconfig of another user, with a client certificate; return its path.

        Args:
            user: The name; Roles decide what it may do.
            groups: The groups that it is in.

        Raises:
            ValueError: A name is empty or longer than 64 characters.
        """
        from traincrew.local.apiserver.http.kubeconfig import write_kubeconfig

        document = self._own().kubeconfig_of(user, groups)
        path = self._own().directory / f"{_FILE.sub('_', user)}.kubeconfig"
        write_kubeconfig(path, document)
        return path

    # -- for the next test ------------------------------------------------------------------------

    def reset(self) -> None:
        """Return to an empty server: no objects but those of a new one, no faults, no audit.

        Everything is deleted at once, whatever its finalizers: namespaces, definitions and other
        cluster-scoped objects as well. Watches stay, and report it. The clock is the machine's.
        """
        server = self._server
        self.faults.clear()
        self.clock.reset()
        self._call(server.reset)
        self.audit.clear()

    def _remove_expired(self) -> None:
        if self._standalone is not None:
            self._call(self._standalone.clock_moved)

    def _own(self) -> StandaloneServer:
        self._started()
        assert self._standalone is not None
        return self._standalone
