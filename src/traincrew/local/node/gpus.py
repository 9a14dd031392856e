"""GPUs: which container gets which devices of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.node.quantities import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.local.node.specs import NodeSpec

__all__ = ["RESOURCE", "GpuAllocator", "gpu_variables", "wanted_gpus"]

RESOURCE = "nvidia.com/gpu"


def wanted_gpus(container: Mapping[str, Any]) -> int:
    """How many GPUs a container asks for."""
    resources = container.get("resources") or {}
    amount = (resources.get("limits") or {}).get(RESOURCE)
    if amount is None:
        amount = (resources.get("requests") or {}).get(RESOURCE, 0)
    return int(parse_quantity(amount))


def gpu_variables(devices: Sequence[int]) -> dict[str, str]:
    """What makes CUDA programs see these devices only, which may be none."""
    listed = ",".join(str(device) for device in devices)
    return {"CUDA_VISIBLE_DEVICES": listed, "NVIDIA_VISIBLE_DEVICES": listed or "void"}


class GpuAllocator:
    """Hands out the devices of the virtual nodes."""

    def __init__(self, nodes: Sequence[NodeSpec]) -> None:
        self._free: dict[str, list[int]] = {}
        self._held: dict[tuple[str, str], tuple[str, list[int]]] = {}
        first = 0
        for node in nodes:
            self._free[node.name] = list(range(first, first + node.gpus))
            first += node.gpus
        self.any = first > 0
        """Whether there are GPUs at all; where not, variables are left alone."""

    def allocate(self, node: str, uid: str, container: str, count: int) -> list[int] | None:
        """Devices for a container, the same as before if it has some; None if too few are left."""
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
        """Note what a container found running already has."""
        free = self._free.setdefault(node, [])
        self._free[node] = [device for device in free if device not in devices]
        self._held[uid, container] = (node, devices)

    def release(self, uid: str, container: str) -> None:
        """A container has ended for good."""
        node, devices = self._held.pop((uid, container), ("", []))
        if devices:
            self._free[node] = sorted(self._free[node] + devices)
