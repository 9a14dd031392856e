"""A server of this process with its state directory: what a cluster and an API server alone share.

The directory has the lock, the identity (port, token, addresses), the state and the administrator's
kubeconfig. Without one, all of it is temporary and ends with the server.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from traincrew.engine.client import Client
from traincrew.engine.config import ClientConfig, StaticCredentials
from traincrew.local import leftovers
from traincrew.local.apiserver.http.kubeconfig import write_kubeconfig
from traincrew.local.apiserver.storage import Storage
from traincrew.local.authority import ClientAuthority
from traincrew.local.certificaterequests import Signer
from traincrew.local.directories import private_directory
from traincrew.local.identity import Identity
from traincrew.local.statelock import StateLock

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

    from traincrew.local.apiserver.http.server import ApiServer
    from traincrew.local.authority import Certificate

_URL = "http://kubernetes.default.svc"
"""The base URL of clients in this process."""


class InProcessServer(ABC):
    """Starts, serves and stops; an asynchronous context manager.

    Attributes:
        server: The API server, once it has started.
        directory: Where its files are, once it has started.
    """

    component: ClassVar[str]
    """Name of its own clients and events."""

    def __init__(self) -> None:
        self.server: ApiServer
        self.directory: Path
        self._resources = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._clients: ClientAuthority | None = None

    # -- life cycle -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start it; on return the API is served, and the controllers' caches are synced.

        Raises:
            StateInUseError: Another process serves from the directory.
            PortInUseError: Another program listens on the port.
            OSError: The port, the directory or a certificate cannot be used.
            StorageError: The file with the state cannot be used.
        """
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    @abstractmethod
    async def _start(self) -> None:
        """Start all parts; `stop` follows if it fails."""

    async def stop(self) -> None:
        """Stop it; a temporary directory is removed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._resources.aclose()

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            Exception: The error that ended a part.
        """
        await asyncio.gather(asyncio.Event().wait(), *self._tasks)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    # -- parts of starting ------------------------------------------------------------------------

    def _open(self, directory: Path | None) -> tuple[StateLock, Identity]:
        """Lock the directory, or make a temporary one; return the lock and the identity.

        The caller writes the address into the lock when all parts have started.
        """
        if directory is None:
            self.directory, lock = leftovers.temporary_state()
        else:
            self.directory = directory
            private_directory(directory)
            lock = StateLock(directory)
        self._resources.callback(lock.release)
        if directory is None:
            self._resources.callback(self._remove_directory)
        return lock, Identity.load(self.directory)

    def _remove_directory(self) -> None:
        with contextlib.suppress(OSError):
            leftovers.remove(self.directory)

    def _storage(self, directory: Path | None) -> Storage:
        """Open the state: a file of the directory, or memory."""
        storage = Storage(None if directory is None else directory / "state.db")
        self._resources.callback(storage.close)
        return storage

    async def _serve(
        self,
        identity: Identity,
        port: int,
        certificate: Certificate,
        client_authority: Path | None = None,
    ) -> None:
        """Start `server`, and write the administrator's kubeconfig.

        Args:
            identity: It keeps the port for the next start.
            port: 0 means the one of the last start, or a free one.
            certificate: The serving certificate.
            client_authority: File with the CAs of clients.
        """
        await self.server.start(
            port or identity.port, certificate=certificate, client_authority=client_authority
        )
        self._resources.push_async_callback(self.server.stop)
        if identity.port != self.server.port:
            identity.port = self.server.port
            identity.save(self.directory)
        write_kubeconfig(Path(self.kubeconfig_path), self.server.kubeconfig())

    async def _signer(self) -> Signer:
        """Return the CA that signs approved requests; from then on its certificates are accepted.

        It is made with the first of them.
        """
        if self._clients is None:
            self._clients = await asyncio.to_thread(ClientAuthority, self.directory)
        self.server.accept_clients(self._clients.path)
        return Signer(*self._clients.pair())

    async def _wait_ready(self, ready: Coroutine[None, None, None]) -> None:
        """Wait for `ready`; raise the error of a part that ends before."""
        waiting = asyncio.create_task(ready)
        done, _ = await asyncio.wait({waiting, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
        if waiting not in done:
            waiting.cancel()
            raise RuntimeError(f"a part of {self.component} ended while it was starting")

    # -- access -----------------------------------------------------------------------------------

    @property
    def kubeconfig_path(self) -> str:
        """Path of the administrator's kubeconfig (mode 0600), for any Kubernetes client."""
        return str(self.directory / "kubeconfig")

    def make_client(self, user_agent: str = "") -> Client:
        """Return a new client of this process, as the administrator; the caller closes it."""
        return Client(self.client_config(), user_agent=user_agent or self.component)

    def client_config(self) -> ClientConfig:
        """Return the configuration of clients in this process: no network, hence no TLS."""
        return ClientConfig(
            _URL,
            credentials=StaticCredentials.token(self.server.token),
            dial=self.server.connect,
        )
