"""The API server without a cluster around it, for tests of other programs: no nodes, no pods.

    async with StandaloneServer() as server:
        print(server.kubeconfig_path)

It is in memory, or in a directory that keeps the state between starts. Unlike the API server of a
cluster it has users with client certificates, and anonymous ones who may do what Roles grant them,
as kube-apiserver has.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from traincrew.engine.client import Client
from traincrew.engine.config import ClientConfig, StaticCredentials
from traincrew.local import leftovers
from traincrew.local.apiserver.http.kubeconfig import kubeconfig, write_kubeconfig
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage
from traincrew.local.authority import (
    Certificate,
    ClientAuthority,
    make_certificate,
    stored_certificate,
)
from traincrew.local.directories import private_directory
from traincrew.local.identity import Identity
from traincrew.local.statelock import StateLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

COMPONENT = "traincrew-apiserver"
_IN_PROCESS_URL = "http://kubernetes.default.svc"


class StandaloneOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an API server without a cluster.

    `directory` keeps the state between starts (mode 0700); None means memory only. `port` 0 picks
    the port last used in that directory, or a free one. `controllers` runs those of a controller
    manager: garbage collection, Deployments, Jobs, namespaces and so on, without anything that runs
    pods. `certificate` and `client_authority` (a file with CAs) are made if they are None.
    `service_network` is the range of cluster IPs; nothing listens on them. `clock` returns seconds
    since the epoch.
    """

    directory: Path | None = None
    port: int = 0
    controllers: bool = False
    certificate: Certificate | None = None
    client_authority: Path | None = None
    service_network: IPv4Network | None = None
    anonymous: bool = True
    clock: Callable[[], float] = time.time


class StandaloneServer:
    """An API server in this process; `server` is it, `directory` has its files."""

    def __init__(self, options: StandaloneOptions | None = None) -> None:
        self.options = options or StandaloneOptions()
        self.server: ApiServer
        self.directory: Path
        self._clients: ClientAuthority | None = None
        self._look_again: Callable[[], None] = _nothing
        self._resources = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

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

    async def _start(self) -> None:
        options = self.options
        if options.directory is None:
            self.directory, lock = leftovers.temporary_state()
        else:
            self.directory = options.directory
            private_directory(self.directory)
            lock = StateLock(self.directory)
        self._resources.callback(lock.release)
        if options.directory is None:
            self._resources.callback(self._remove_directory)
            # What killed servers have left; it holds nothing up.
            sweeping = asyncio.create_task(asyncio.to_thread(leftovers.sweep))
            self._resources.push_async_callback(asyncio.wait, {sweeping})
        identity = Identity.load(self.directory)
        network = options.service_network or IPv4Network(identity.service_network)
        storage = Storage(None if options.directory is None else self.directory / "state.db")
        self._resources.callback(storage.close)
        self.server = ApiServer(
            storage,
            secret=identity.token,
            clock=options.clock,
            service_network=network,
            anonymous=options.anonymous,
        )
        certificate, clients = await asyncio.to_thread(self._certificates, network)
        await self.server.start(
            options.port or identity.port, certificate=certificate, client_authority=clients
        )
        self._resources.push_async_callback(self.server.stop)
        if identity.port != self.server.port:
            identity.port = self.server.port
            identity.save(self.directory)
        write_kubeconfig(Path(self.kubeconfig_path), self.server.kubeconfig())
        if options.controllers:
            await self._start_controllers()
        lock.write(self.server.url)

    def _certificates(self, network: IPv4Network) -> tuple[Certificate, Path]:
        """Return the serving certificate, and the file with the CAs of clients."""
        certificate = (
            self.options.certificate
            or stored_certificate(self.directory)
            or make_certificate(self.directory, [network[1]])
        )
        if self.options.client_authority is not None:
            return certificate, self.options.client_authority
        self._clients = ClientAuthority(self.directory)
        return certificate, self._clients.path

    async def _start_controllers(self) -> None:
        from traincrew.engine.controller import Manager
        from traincrew.engine.events import EventRecorder
        from traincrew.local.controllers import add_controllers

        client = await self._resources.enter_async_context(self.make_client())
        events = EventRecorder(client, COMPONENT)
        manager = Manager(client)
        self._look_again = add_controllers(
            manager, events, authority=self.server.authority, clock=self.options.clock
        )
        for name, part in (("events", events), ("manager", manager)):
            self._tasks.append(asyncio.create_task(part.run(), name=name))
        waiting = asyncio.create_task(manager.wait_synced())
        done, _ = await asyncio.wait({waiting, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
        if waiting not in done:
            waiting.cancel()
            raise RuntimeError("a controller ended while it was starting")

    def _remove_directory(self) -> None:
        with contextlib.suppress(OSError):
            leftovers.remove(self.directory)

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
            Exception: The error that ended a controller.
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

    def clock_moved(self) -> None:
        """Delete what has expired by a clock that was moved: Events, and finished Jobs soon."""
        self.server.remove_expired()
        self._look_again()

    # -- access

    @property
    def kubeconfig_path(self) -> str:
        """Path of the administrator's kubeconfig (mode 0600)."""
        return str(self.directory / "kubeconfig")

    def kubeconfig_of(self, user: str, groups: Iterable[str] = ()) -> dict[str, Any]:
        """Return a kubeconfig with a new client certificate.

        Args:
            user: Its common name.
            groups: Its organizations; ``system:masters`` makes an administrator.

        Raises:
            ValueError: A name cannot be used, or the CA of clients is not this server's own.
        """
        if self._clients is None:
            raise ValueError("clients have certificates of another CA: sign the user's there")
        return kubeconfig(
            self.server.url,
            client=self._clients.issue(user, groups),
            authority=self.server.authority,
        )

    def make_client(self, user_agent: str = COMPONENT) -> Client:
        """Return a new client of this process, as the administrator; the caller closes it."""
        config = ClientConfig(
            _IN_PROCESS_URL,
            credentials=StaticCredentials.token(self.server.token),
            dial=self.server.connect,
        )
        return Client(config, user_agent=user_agent)


def _nothing() -> None:
    """Do nothing: there are no controllers."""
