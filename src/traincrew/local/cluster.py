"""The embedded cluster as one object: API server, controllers, scheduler and node.

`LocalCluster` is the public entry point of `traincrew.local`. It is an asynchronous context
manager, and a plain one for programs without an event loop of their own:

    async with LocalCluster() as cluster:
        pods = await cluster.client.list(PODS, "default")

    with LocalCluster() as cluster:
        environment = {**os.environ, "KUBECONFIG": cluster.kubeconfig_path}
        subprocess.run(["kubectl", "get", "nodes"], env=environment)

With a directory the state is persistent: a cluster restarted there has the same address, the same
objects and the same running pods. Without one, everything is kept in memory and in a temporary
directory, and is deleted with the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from traincrew.engine.controller import Manager
from traincrew.engine.events import EventRecorder
from traincrew.local import credentials, leftovers
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.authority import (
    Certificate,
    ClientAuthority,
    make_certificate,
    stored_certificate,
)
from traincrew.local.background import BackgroundLoop
from traincrew.local.controllers import add_controllers
from traincrew.local.directories import default_cache
from traincrew.local.images import ImageStore, Source
from traincrew.local.inprocess import InProcessServer
from traincrew.local.node import Node, NodeSpec, PodOptions, running_nodes, sweep_memory
from traincrew.local.scheduler import add_scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from traincrew.engine.client import Client
    from traincrew.local.identity import Identity
    from traincrew.local.leftovers import Removed


class ClusterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an embedded cluster.

    `directory` keeps the state between starts (mode 0700); None means memory only. `port` 0 picks
    the port last used in that directory, or a free one. `nodes` are virtual nodes on this machine.
    """

    directory: Path | None = None
    port: int = 0
    nodes: tuple[NodeSpec, ...] = (NodeSpec(name="local"),)
    image_catalogs: tuple[Path, ...] = ()
    image_cache: Path = msgspec.field(default_factory=default_cache)
    image_source: Literal["auto", "environment", "image"] = "auto"
    """What image names stand for: see `local.images.sources`."""
    sandbox: Literal["auto", "namespaces", "bare"] = "auto"
    scheduler_names: tuple[str, ...] = ()
    """Values of `spec.schedulerName` the scheduler handles besides `default-scheduler`."""
    pods: PodOptions = PodOptions()
    secrets: Callable[[], Iterable[Path]] = tuple
    """Returns paths that pods must not see, besides those of `local.credentials`."""
    on_pull: Callable[[str, str], None] | None = None
    """Called with the image and a line of progress while an environment is built."""
    on_removed: Callable[[Removed], None] | None = None
    """Called if the start removes what killed processes left in the temporary directory."""


class LocalCluster(InProcessServer):
    """A Kubernetes-compatible cluster in this process; pods are processes on this machine."""

    component = "traincrew-local"

    def __init__(self, options: ClusterOptions | None = None) -> None:
        super().__init__()
        self.options = options or ClusterOptions()
        self.client: Client
        self.node: Node
        self._loop: BackgroundLoop | None = None
        self._credentials = credentials.Credentials(self.options.image_cache, running_nodes)

    # -- life cycle ---------------------------------------------------------------------------

    async def _start(self) -> None:
        options = self.options
        lock, identity = self._open(options.directory)
        removing = asyncio.create_task(self._remove_leftovers())
        self._resources.push_async_callback(_wait_until_done, removing)
        # Created on another thread, while this one prepares the rest.
        certificate = asyncio.create_task(asyncio.to_thread(_certificate, self.directory, identity))
        self._resources.push_async_callback(_wait_until_done, certificate)
        self.server = ApiServer(
            self._storage(options.directory),
            secret=identity.token,
            service_network=IPv4Network(identity.service_network),
        )
        clients = ClientAuthority.stored(self.directory)
        await self._serve(identity, options.port, await certificate, clients)

        self.client = await self._resources.enter_async_context(self.make_client())
        events = EventRecorder(self.client, self.component)
        manager = Manager(self.client)
        add_controllers(manager, events, authority=self.server.authority, signer=self._signer)
        add_scheduler(manager, events, options.scheduler_names)
        self.images = ImageStore(
            options.image_cache, options.image_catalogs, source=Source(options.image_source)
        )
        if options.directory is not None:
            with contextlib.suppress(OSError):  # a cache that is read-only
                credentials.record(self.directory, options.image_cache)
        self.node = Node(
            self.client,
            self.images,
            self.directory / "node",
            nodes=options.nodes,
            kubeconfig=self.server.kubeconfig,
            secrets=self._secrets,
            api_port=self.server.port,
            events=events,
            sandbox=options.sandbox,
            pods=options.pods,
            survive=options.directory is not None,
            on_progress=options.on_pull,
        )
        self.server.node = self.node.backend
        await self.node.start()
        for name, part in (("events", events), ("manager", manager), ("node", self.node)):
            self._tasks.append(asyncio.create_task(part.run(), name=name))
        await self._wait_ready(manager.wait_synced())
        lock.write(self.server.url)

    def _secrets(self) -> list[Path]:
        """Return where credentials of this cluster and others may be."""
        named = os.environ.get("KUBECONFIG", "").split(os.pathsep)
        files = [Path(each) for each in named if each and Path(each).is_file()]
        return [self.directory, *self._credentials.paths(), *files, *self.options.secrets()]

    async def _remove_leftovers(self) -> None:
        removed = await asyncio.to_thread(leftovers.sweep)
        if removed.directories:
            # Their directories in memory are known by the state directories.
            await asyncio.to_thread(sweep_memory)
            if self.options.on_removed is not None:
                self.options.on_removed(removed)

    async def stop_pods(self) -> None:
        """Kill all pods before `stop`, so that their files and logs can be inspected."""
        if hasattr(self, "node"):
            await self.node.stop(kill=True)

    async def stop(self, *, keep_pods: bool = False) -> None:
        """Stop the cluster. Pods are killed, unless the next start is to find them again.

        Args:
            keep_pods: Leave the processes of pods running; only meaningful with a directory.
        """
        if hasattr(self, "node"):
            await self.node.stop(kill=not keep_pods)
        await super().stop()

    # -- the plain context manager: the cluster on a thread of its own ----------------------------

    def __enter__(self) -> Self:
        loop = BackgroundLoop("traincrew-cluster")
        try:
            loop.call(self.start())
        except BaseException:
            loop.close()
            raise
        self._loop = loop
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._loop is not None
        loop, self._loop = self._loop, None
        try:
            loop.call(self.stop())
        finally:
            loop.close()

    # -- access to the cluster ------------------------------------------------------------------

    def kubeconfig(self, namespace: str = "default") -> dict[str, Any]:
        """Return the kubeconfig as a document."""
        return self.server.kubeconfig(namespace)


def _certificate(directory: Path, identity: Identity) -> Certificate:
    """Return the stored certificate, or create one for the server and its Service's address."""
    first = IPv4Network(identity.service_network)[1]
    return stored_certificate(directory) or make_certificate(directory, [first])


async def _wait_until_done(task: asyncio.Task[Any]) -> None:
    """Wait for a task whose result may no longer be needed."""
    await asyncio.gather(task, return_exceptions=True)


def virtual_nodes(
    count: int, *, gpus: int = 0, labels: Mapping[str, str] | None = None
) -> Sequence[NodeSpec]:
    """Return `count` virtual nodes on this machine, with the GPUs spread as evenly as possible."""
    share, rest = divmod(gpus, max(count, 1))
    return tuple(
        NodeSpec(
            name="local" if count == 1 else f"local-{index}",
            gpus=share + (1 if index < rest else 0),
            labels=dict(labels or {}),
        )
        for index in range(count)
    )
