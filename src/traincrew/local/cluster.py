"""The embedded cluster as one object: API server, controllers, scheduler, node in this process.

`LocalCluster` is the public door of `traincrew.local`. It is an asynchronous context manager, and a
plain one for programs without an event loop of their own:

    async with LocalCluster() as cluster:
        pods = await cluster.client.list(PODS, "default")

    with LocalCluster() as cluster:
        environment = {**os.environ, "KUBECONFIG": cluster.kubeconfig_path}
        subprocess.run(["kubectl", "get", "nodes"], env=environment)

With a directory the state survives: a cluster started there again has the same address, the same
objects and the same running pods. Without one everything lives in memory and in a temporary
directory, and ends with the object.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import tempfile
import threading
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from traincrew.engine.client import Client
from traincrew.engine.config import from_kubeconfig
from traincrew.engine.events import EventRecorder
from traincrew.engine.manager import Manager
from traincrew.local.apiserver.kubeconfig import write_kubeconfig
from traincrew.local.apiserver.server import ApiServer
from traincrew.local.apiserver.storage import Storage
from traincrew.local.authority import server_certificate
from traincrew.local.controllers import add_controllers
from traincrew.local.controllers.service_accounts import NO_AUTHORITY
from traincrew.local.images import ImageStore
from traincrew.local.node import Node, NodeSpec
from traincrew.local.scheduler import add_scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future
    from types import TracebackType

COMPONENT = "traincrew-local"


def default_cache() -> Path:
    """Where environments are kept: `$TRAINCREW_CACHE`, or `traincrew` in the user's cache."""
    if configured := os.environ.get("TRAINCREW_CACHE"):
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "traincrew"


class ClusterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How an embedded cluster is made.

    `directory` keeps the state between starts (mode 0700); None means memory only. `port` 0 picks
    the port last used in that directory, or a free one. `nodes` are virtual nodes over this one
    machine.
    """

    directory: Path | None = None
    port: int = 0
    nodes: tuple[NodeSpec, ...] = (NodeSpec(name="local"),)
    image_catalogs: tuple[Path, ...] = ()
    image_cache: Path = msgspec.field(default_factory=default_cache)
    sandbox: Literal["auto", "namespaces", "bare"] = "auto"
    on_pull: Callable[[str, str], None] | None = None
    """Called with (image, line of progress) while an environment is built."""


class LocalCluster:
    """A Kubernetes-compatible cluster in this process; pods are processes on this machine."""

    def __init__(self, options: ClusterOptions | None = None) -> None:
        self.options = options or ClusterOptions()
        self.client: Client
        self.server: ApiServer
        self.node: Node
        self._resources = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self.directory: Path

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start every part; on return the API answers and its controllers have seen its objects.

        Raises:
            OSError: The port or the directory cannot be used.
        """
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        options = self.options
        if options.directory is None:
            self.directory = Path(tempfile.mkdtemp(prefix="traincrew-"))
            self._resources.callback(shutil.rmtree, self.directory, ignore_errors=True)
        else:
            self.directory = options.directory
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        identity = _Identity.load(self.directory)
        storage = Storage(None if options.directory is None else self.directory / "state.db")
        self._resources.callback(storage.close)

        self.server = ApiServer(
            storage, secret=identity.secret, service_network=IPv4Network(identity.service_network)
        )
        certificate = await asyncio.to_thread(server_certificate, self.directory)
        await self.server.start(
            options.port or identity.port,
            tls=certificate and certificate.context(),
            secure_port=identity.secure_port,
        )
        self._resources.push_async_callback(self.server.stop)
        ports = (self.server.port, self.server.secure_port or identity.secure_port)
        if (identity.port, identity.secure_port) != ports:
            identity.port, identity.secure_port = ports
            identity.save(self.directory)
        write_kubeconfig(Path(self.kubeconfig_path), self.server.kubeconfig())

        self.client = await self._resources.enter_async_context(self.make_client())
        events = EventRecorder(self.client, COMPONENT)
        manager = Manager(self.client)
        add_controllers(
            manager, events, authority=certificate.text if certificate else NO_AUTHORITY
        )
        add_scheduler(manager, events)
        self.node = Node(
            self.client,
            ImageStore(options.image_cache, options.image_catalogs),
            self.directory / "node",
            nodes=options.nodes,
            kubeconfig=self.server.kubeconfig,
            secure_port=self.server.secure_port,
            events=events,
            sandbox=options.sandbox,
            survive=options.directory is not None,
            on_progress=options.on_pull,
        )
        self.server.node = self.node.backend
        await self.node.start()
        for name, part in (("events", events), ("manager", manager), ("node", self.node)):
            self._tasks.append(asyncio.create_task(part.run(), name=name))
        await self._first(manager.wait_synced())

    async def _first(self, ready: Any) -> None:
        """Wait until `ready`, or raise what ended one of the parts before that."""
        waiting = asyncio.ensure_future(ready)
        done, _ = await asyncio.wait({waiting, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
        if waiting not in done:
            waiting.cancel()
            raise RuntimeError("a part of the embedded cluster ended while it was starting")

    async def stop(self, *, keep_pods: bool = False) -> None:
        """Stop. Pods end too (at once), unless they are to be found again by the next start.

        Args:
            keep_pods: Leave the processes of pods running; only meaningful with a directory.
        """
        if hasattr(self, "node"):
            await self.node.stop(kill=not keep_pods)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._resources.aclose()

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

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            Exception: Whatever ended one of the parts.
        """
        await asyncio.gather(*self._tasks)

    # -- the plain context manager: the cluster on a thread of its own ----------------------------

    def __enter__(self) -> Self:
        started: Future[None] = _new_future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name="traincrew-cluster", daemon=True
        )
        self._thread.start()
        started.result()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._thread is None or self._loop is None or self._stop is None:
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            await self.start()
        except BaseException as error:  # noqa: BLE001  # handed to the thread that waits for it
            started.set_exception(error)
            return
        started.set_result(None)
        await self._stop.wait()
        await self.stop()

    # -- what users of the object need ----------------------------------------------------------

    @property
    def kubeconfig_path(self) -> str:
        """A kubeconfig file (mode 0600) that any Kubernetes client can use."""
        return str(self.directory / "kubeconfig")

    def kubeconfig(self, namespace: str = "default") -> dict[str, Any]:
        """The kubeconfig as a document."""
        return self.server.kubeconfig(namespace)

    def make_client(self, user_agent: str = COMPONENT) -> Client:
        """A new client of this cluster; the caller closes it."""
        return Client(from_kubeconfig(self.server.kubeconfig()), user_agent=user_agent)


class _Identity(msgspec.Struct):
    """What must not change between starts: kubeconfigs in the hands of users and pods name it."""

    secret: str
    service_network: str
    port: int = 0
    secure_port: int = 0

    @classmethod
    def load(cls, directory: Path) -> _Identity:
        try:
            return msgspec.json.decode((directory / "identity.json").read_bytes(), type=cls)
        except FileNotFoundError:
            # Clusters side by side share the loopback interface: one of 1,024 networks of
            # 127.64.0.0/10 each, so that their Services do not meet.
            base = IPv4Network("127.64.0.0/10")
            network = base.network_address + 4096 * secrets.randbelow(1024)
            return cls(secret=secrets.token_urlsafe(24), service_network=f"{network}/20")

    def save(self, directory: Path) -> None:
        path = directory / "identity.json"
        temporary = path.with_suffix(".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(self))
        temporary.replace(path)


def _new_future() -> Future[None]:
    from concurrent.futures import Future as _Future

    return _Future()


def virtual_nodes(
    count: int, *, gpus: int = 0, labels: Mapping[str, str] | None = None
) -> Sequence[NodeSpec]:
    """`count` virtual nodes over this machine, the GPUs on the first ones as even as possible."""
    share, rest = divmod(gpus, max(count, 1))
    return tuple(
        NodeSpec(
            name="local" if count == 1 else f"local-{index}",
            gpus=share + (1 if index < rest else 0),
            labels=dict(labels or {}),
        )
        for index in range(count)
    )
