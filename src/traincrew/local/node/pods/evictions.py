"""Eviction of a pod that stores more on its node than it may.

Limits are `sizeLimit` of `emptyDir` volumes, and `ephemeral-storage` of containers: what they write
into their root file systems, their logs, and, for the pod as a whole, volumes on disk.

Rules and messages: the kubelet's `localStorageEviction` (`eviction_manager.go`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.local.node.containers.memoryfiles import is_in_memory
from traincrew.local.node.records.record import is_sidecar
from traincrew.local.node.runtime.sizes import log_bytes, root_bytes, size_of
from traincrew.local.quantity import canonical, parse
from traincrew.local.quotas.podresources import pod_total

if TYPE_CHECKING:
    from traincrew.local.node.containers.handle import PodHandle
    from traincrew.local.node.runtime.instances import Instance

__all__ = ["EVICTED", "GRACE_SECONDS", "StorageLimits", "StorageUse", "limited_storage"]

Document = Mapping[str, Any]

EVICTED = "Evicted"
GRACE_SECONDS = 1.0
"""For the containers of an evicted pod, whatever its grace period is."""
_RESOURCE = "ephemeral-storage"


class StorageUse(NamedTuple):
    """What a pod stores on its node, in bytes.

    Attributes:
        volumes: of its `emptyDir` volumes, by name.
        on_disk: names of those that are not in memory.
        containers: of running containers, by name: their root file systems and logs.
    """

    volumes: Mapping[str, int]
    on_disk: frozenset[str]
    containers: Mapping[str, int]


class StorageLimits(NamedTuple):
    """What a pod may store on its node; quantities as messages have them. Pure.

    Attributes:
        volumes: sizes of `emptyDir` volumes, by name.
        containers: limits of containers and sidecars, by name.
        pod: the sum of its containers' limits, of those that have one; empty for none.
    """

    volumes: Mapping[str, str]
    containers: Mapping[str, str]
    pod: str

    @classmethod
    def of(cls, spec: Document) -> StorageLimits:
        """Return the limits of a pod; a size or limit of zero is none for a volume or container."""
        volumes = {
            str(each["name"]): str(size)
            for each in spec.get("volumes") or ()
            if (size := (each.get("emptyDir") or {}).get("sizeLimit")) is not None
            and parse(size) > 0
        }
        sidecars = [each for each in spec.get("initContainers") or () if is_sidecar(each)]
        containers = {
            str(each["name"]): canonical(limit)
            for each in (*spec["containers"], *sidecars)
            if (limit := _limit(each)) is not None and parse(limit) > 0
        }
        total = pod_total(spec, "limits", overhead=True).get(_RESOURCE)
        return cls(volumes, containers, "" if total is None else canonical(total))

    def exceeded(self, use: StorageUse) -> str:
        """Return the message about the first limit that is exceeded; empty if none is."""
        for name, limit in self.volumes.items():
            if use.volumes.get(name, 0) > parse(limit):
                return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
        if self.pod:
            on_disk = sum(use.volumes.get(name, 0) for name in use.on_disk)
            if sum(use.containers.values()) + on_disk > parse(self.pod):
                return (
                    "Pod ephemeral local storage usage exceeds the total limit of containers "
                    f"{self.pod}. "
                )
        for name, limit in self.containers.items():
            if use.containers.get(name, 0) > parse(limit):
                return f'Container {name} exceeded its local ephemeral storage limit "{limit}". '
        return ""


def _limit(container: Document) -> str | None:
    limit: str | None = ((container.get("resources") or {}).get("limits") or {}).get(_RESOURCE)
    return limit


class _Storage:
    """Measures the storage of one pod; in a thread."""

    def __init__(
        self, pod: PodHandle, spec: Document, running: Callable[[], list[Instance]]
    ) -> None:
        self.limits = StorageLimits.of(spec)
        self._running = running
        volumes = {
            str(each["name"]): is_in_memory(each)
            for each in spec.get("volumes") or ()
            if each.get("emptyDir") is not None
        }
        self._on_disk = frozenset(name for name, in_memory in volumes.items() if not in_memory)
        counted = self._on_disk if self.limits.pod else frozenset[str]()
        self._directories = {
            name: pod.volume(name)
            for name in volumes
            if name in self.limits.volumes or name in counted
        }
        self._volumes: dict[str, int] = {}

    @property
    def is_limited(self) -> bool:
        return bool(self.limits.volumes or self.limits.pod)

    def exceeded(self, *, disk: bool) -> str:
        """Return the message about the first limit that is exceeded; empty if none is.

        Args:
            disk: whether to measure volumes on disk as well; otherwise they are as they were last.
        """
        for name, directory in self._directories.items():
            if disk or name not in self._on_disk:
                self._volumes[name] = size_of(directory, self._enough(name))
        containers = {}
        if self.limits.pod:
            for instance in self._running():
                used = root_bytes(instance) + log_bytes(instance)
                containers[instance.directory.parent.name] = used
        return self.limits.exceeded(StorageUse(self._volumes, self._on_disk, containers))

    def _enough(self, volume: str) -> int:
        """Return the bytes of a volume above which a limit is exceeded."""
        limits = (self.limits.volumes.get(volume), self.limits.pod)
        return min(int(parse(each)) for each in limits if each)


@contextmanager
def limited_storage(
    pod: PodHandle,
    spec: Document,
    running: Callable[[], list[Instance]],
    evict: Callable[[str], None],
) -> Iterator[None]:
    """Watch what a pod stores.

    Args:
        pod: With prepared volumes.
        spec: Of the pod.
        running: Returns the instances of its containers that are running; called in a thread.
        evict: Called once, with the message, when the pod stores too much.
    """
    storage = _Storage(pod, spec, running)
    if not storage.is_limited:
        yield
        return
    watch = pod.context.memory
    watch.watch_storage(pod.uid, storage.exceeded, evict)
    try:
        yield
    finally:
        watch.forget_storage(pod.uid)
