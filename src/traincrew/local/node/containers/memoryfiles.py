"""The memory that a container may use, and the directories in memory that it can write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from traincrew.local.node.records.record import is_sidecar
from traincrew.local.node.runtime.memory import MemoryFiles
from traincrew.local.node.volumes.podvolumes import VolumeError
from traincrew.local.quantity import parse

if TYPE_CHECKING:
    from traincrew.local.node.containers.handle import PodHandle

__all__ = ["is_in_memory", "is_storage_limited", "memory_files", "memory_limit"]

Document = Mapping[str, Any]


def memory_limit(container: Document) -> int:
    """Return `resources.limits.memory` of a container in bytes; 0 without a limit."""
    limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    return 0 if limit is None else int(parse(limit))


def is_storage_limited(spec: Document) -> bool:
    """Return whether a container of a pod limits what all of them may store on the node."""
    containers = (*spec["containers"], *(spec.get("initContainers") or ()))
    limits = [(each.get("resources") or {}).get("limits") or {} for each in containers]
    return any("ephemeral-storage" in each for each in limits)


def is_in_memory(volume: Document) -> bool:
    """Return whether a volume of a pod is an `emptyDir` with `medium: Memory`."""
    return bool((volume.get("emptyDir") or {}).get("medium") == "Memory")


def memory_files(pod: PodHandle, container: Document) -> MemoryFiles:
    """Return the directories in memory that a container shares with its pod.

    Args:
        pod: Its pod.
        container: Of the pod's spec.
    """
    spec = pod.facts().spec
    in_memory = {each["name"] for each in spec.get("volumes") or () if is_in_memory(each)}
    directories = [pod.shared_memory()]
    for mount in container.get("volumeMounts") or ():
        if mount["name"] in in_memory:
            try:
                directories.append(pod.volume(mount["name"]))
            except VolumeError:
                continue  # of a pod that is deleted before its volumes are prepared
    sidecars = [each for each in spec.get("initContainers") or () if is_sidecar(each)]
    together = [*spec["containers"], *sidecars]
    limits = [memory_limit(each) for each in together]
    alone = len(together) == 1 or (container not in together and not sidecars)
    return MemoryFiles(
        pod.uid, tuple(dict.fromkeys(directories)), alone, sum(limits) if all(limits) else 0
    )
