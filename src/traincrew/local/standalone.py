"""The API server without a cluster around it, for tests of other programs: no nodes, no pods.

    async with StandaloneServer() as server:
        print(server.kubeconfig_path)

It is in memory, or in a directory that keeps the state between starts. Unlike the API server of a
cluster it has users with client certificates, and anonymous ones who may do what Roles grant them,
as kube-apiserver has.
"""

from __future__ import annotations

import asyncio
import time
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.local import leftovers
from traincrew.local.apiserver.http.kubeconfig import kubeconfig
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.authority import (
    Certificate,
    ClientAuthority,
    make_certificate,
    stored_certificate,
)
from traincrew.local.inprocess import InProcessServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


class StandaloneOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an API server without a cluster.

    `directory` keeps the state between starts (mode 0700); None means memory only. `port` 0 picks
    the port last used in that directory, or a free one. `controllers` runs those of a controller
    manager: garbage collection, Deployments, Jobs, namespaces and so on, without anything that runs
    pods. `certificate` and `client_authority` (a file with CAs) are made if they are None.
    `service_network` is the range of cluster IPs; nothing listens on them. `service_accounts` says
    whether pods get an account and its token. `clock` returns seconds since the epoch.
    """

    directory: Path | None = None
    port: int = 0
    controllers: bool = False
    certificate: Certificate | None = None
    client_authority: Path | None = None
    service_network: IPv4Network | None = None
    anonymous: bool = True
    service_accounts: bool = True
    clock: Callable[[], float] = time.time


class StandaloneServer(InProcessServer):
    """An API server in this process; `server` is it, `directory` has its files."""

    component = "traincrew-apiserver"

    def __init__(self, options: StandaloneOptions | None = None) -> None:
        super().__init__()
        self.options = options or StandaloneOptions()
        self._look_again: Callable[[], None] = _nothing

    async def _start(self) -> None:
        options = self.options
        lock, identity = self._open(options.directory)
        if options.directory is None:
            # What killed servers have left; it holds nothing up.
            sweeping = asyncio.create_task(asyncio.to_thread(leftovers.sweep))
            self._resources.push_async_callback(asyncio.wait, {sweeping})
        network = options.service_network or IPv4Network(identity.service_network)
        self.server = ApiServer(
            self._storage(options.directory),
            secret=identity.token,
            clock=options.clock,
            service_network=network,
            anonymous=options.anonymous,
            service_accounts=options.service_accounts,
        )
        certificate, clients = await asyncio.to_thread(self._certificates, network)
        await self._serve(identity, options.port, certificate, clients)
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
        events = EventRecorder(client, self.component)
        manager = Manager(client)
        self._look_again = add_controllers(
            manager,
            events,
            authority=self.server.authority,
            signer=self._signer,
            clock=self.options.clock,
        )
        for name, part in (("events", events), ("manager", manager)):
            self._tasks.append(asyncio.create_task(part.run(), name=name))
        await self._wait_ready(manager.wait_synced())

    def clock_moved(self) -> None:
        """Delete what has expired by a clock that was moved: Events, and finished Jobs soon."""
        self.server.remove_expired()
        self._look_again()

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


def _nothing() -> None:
    """Do nothing: there are no controllers."""
