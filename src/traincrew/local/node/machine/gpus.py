"""Allocation of this machine's GPUs to containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.quantity import parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.local.node.machine.specs import NodeSpec

__all__ = [
    "OLDER_RESOURCE",
    "RESOURCE",
    "RESOURCES",
    "GpuAllocator",
    "gpu_variables",
    "wanted_gpus",
]

RESOURCE = "nvidia.com/gpu"
OLDER_RESOURCE = "alpha.kubernetes.io/nvidia-gpu"
"""The name of the resource up to Kubernetes 1.9; the devices are the same."""
RESOURCES = (RESOURCE, OLDER_RESOURCE)


def wanted_gpus(container: Mapping[str, Any]) -> int:
    """Return the number of GPUs that a container requests."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return sum(int(parse(limits.get(name, requests.get(name, 0)))) for name in RESOURCES)


def gpu_variables(devices: Sequence[int]) -> dict[str, str]:
    """Return the variables that restrict CUDA programs to these devices, possibly none."""
    listed = ",".join(str(device) for device in devices)
    return {"CUDA_VISIBLE_DEVICES": listed, "NVIDIA_VISIBLE_DEVICES": listed or "void"}


class GpuAllocator:
    """Allocates the devices of the virtual nodes."""

    def __init__(self, nodes: Sequence[NodeSpec]) -> None:
        self._free: dict[str, list[int]] = {}
        self._held: dict[tuple[str, str], tuple[str, list[int]]] = {}
        first = 0
        for node in nodes:
            self._free[node.name] = list(range(first, first + node.gpus))
            first += node.gpus
        self.any = first > 0
        """Whether there are GPUs; without any, the variables of containers are left alone."""

    def allocate(self, node: str, uid: str, container: str, count: int) -> list[int] | None:
        """Return the container's devices, allocated on the first call; None if too few are free."""
        holder = (uid, container)
        if holder in self._held:
            return self._held[holder][1]
        free = self._free.get(node, [])
        if count > len(free):
            return None
        devices, self._free[node] = free[:count], free[count:]
        if count:
            self._held[holder] = (node, devices)
        return devices

    def hold(self, node: str, uid: str, container: str, devices: list[int]) -> None:
        """Record the devices of an adopted container."""
        free = self._free.setdefault(node, [])
        self._free[node] = [device for device in free if device not in devices]
        self._held[uid, container] = (node, devices)

    def release(self, uid: str, container: str) -> None:
        """Release the devices of a container that has terminated for good."""
        node, devices = self._held.pop((uid, container), ("", []))
        if devices:
            self._free[node] = sorted(self._free[node] + devices)
