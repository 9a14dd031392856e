"""What all pods of the node share."""

from __future__ import annotations

import asyncio
import shutil
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import NotFoundError
from traincrew.engine.resources import CONFIG_MAPS, SECRETS
from traincrew.local.node.references import Reference, Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from traincrew.engine.client import Client
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject
    from traincrew.local.images import ImageStore
    from traincrew.local.node.addresses import PodAddresses
    from traincrew.local.node.capabilities import Capabilities
    from traincrew.local.node.gpus import GpuAllocator
    from traincrew.local.node.hosts import HostsFiles
    from traincrew.local.node.launcher import ForkServer
    from traincrew.local.node.memory import MemoryWatch
    from traincrew.local.node.unsupported import Isolation

__all__ = ["Context", "Paths", "SourceWatch", "find_kubectl"]


_OWNER = ".owner"


class Paths:
    """Where the node keeps what.

    Args:
        state: The node's directory.
        memory: A directory in memory, for volumes and `/dev/shm`.
    """

    def __init__(self, state: Path, memory: Path) -> None:
        self.state = state
        self.memory = memory
        self.pods = state / "pods"
        self.claims = state / "claims"
        self.hosts = state / "hosts"
        self.root = state / "root"
        """Mount point for the root file systems, each in its own mount namespace."""

    def pod(self, uid: str) -> Path:
        """All of a pod that is on disk."""
        return self.pods / uid

    def containers(self, uid: str) -> Path:
        """The containers of a pod, each a directory with one directory per instance."""
        return self.pod(uid) / "containers"

    def volumes(self, uid: str) -> Path:
        """The volumes of a pod."""
        return self.pod(uid) / "volumes"

    def shared_memory(self, uid: str) -> Path:
        """What of a pod is in memory."""
        return self.memory / uid

    def sweep_memory(self) -> None:
        """Claim the directory in memory, and delete those whose node's directory is gone.

        Memory is not given back when a process is killed, so the next node does it.
        """
        (self.memory / _OWNER).write_text(str(self.state))
        for other in self.memory.parent.glob(f"{self.memory.name.partition('-')[0]}-*"):
            try:
                forgotten = not Path((other / _OWNER).read_text()).exists()
            except OSError:
                continue
            if forgotten:
                shutil.rmtree(other, ignore_errors=True)

    def remove_pod(self, uid: str) -> None:
        """Delete everything a pod left."""
        shutil.rmtree(self.shared_memory(uid), ignore_errors=True)
        shutil.rmtree(self.pod(uid), ignore_errors=True)


class SourceWatch:
    """Tells pods when a ConfigMap or Secret they use has changed."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, Reference], set[asyncio.Event]] = {}

    def changed(self, namespace: str, reference: Reference) -> None:
        """An object was created, changed or deleted."""
        for event in self._waiting.get((namespace, reference), ()):
            event.set()

    async def wait(
        self, namespace: str, references: Iterable[Reference], longest: float | None
    ) -> None:
        """Wait until one of some objects changes, or for so many seconds."""
        with self.watching(namespace, references) as event, suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await event.wait()

    @contextmanager
    def watching(self, namespace: str, references: Iterable[Reference]) -> Iterator[asyncio.Event]:
        """An event that is set whenever one of some objects changes; nobody else clears it."""
        event = asyncio.Event()
        keys = [(namespace, reference) for reference in references]
        for key in keys:
            self._waiting.setdefault(key, set()).add(event)
        try:
            yield event
        finally:
            for key in keys:
                self._waiting[key].discard(event)
                if not self._waiting[key]:
                    del self._waiting[key]


class Context:
    """What all pods of the node share."""

    client: Client
    events: EventRecorder
    images: ImageStore
    paths: Paths
    fork_server: ForkServer
    capabilities: Capabilities
    isolation: Isolation
    addresses: PodAddresses
    hosts: HostsFiles
    gpus: GpuAllocator
    memory: MemoryWatch
    sources: SourceWatch
    host_ip: str
    kubeconfig: Callable[[str], dict[str, Any]]
    secure_port: int
    services: Callable[[], Iterable[AnyObject]]
    allocatable: Mapping[str, Mapping[str, str]]
    on_progress: Callable[[str, str], None] | None = None
    kubectl: Path | None = None

    async def fetch(self, namespace: str, references: Iterable[Reference]) -> Sources:
        """Read ConfigMaps and Secrets as they are now.

        Raises:
            ApiError: The server does not answer.
        """
        unique = list(dict.fromkeys(references))
        found = await asyncio.gather(*(self._get(namespace, each) for each in unique))
        return Sources(namespace, dict(zip(unique, found, strict=True)))

    async def _get(self, namespace: str, reference: Reference) -> dict[str, Any] | None:
        if not reference.name:
            return None
        resource = CONFIG_MAPS if reference.kind == "ConfigMap" else SECRETS
        try:
            return await self.client.get(resource, reference.name, namespace)
        except NotFoundError:
            return None


def find_kubectl() -> Path | None:
    """The kubectl pods get beside what their image brings: this environment's, else the user's."""
    bundled = Path(sys.prefix) / "bin" / "kubectl"
    found = str(bundled) if bundled.exists() else shutil.which("kubectl")
    return Path(found).resolve() if found else None
