"""Allocation of this machine's GPUs to containers.

A container has the device files of its own GPUs, as the device plugins of clusters arrange it:
programs count them from 0, and find none in a container that asks for none. Where pods have no file
system of their own, or the driver lists no GPUs in `/proc`, variables restrict CUDA programs.

If nodes offer more GPUs than the machine has, containers share them in turn: the time-slicing of
NVIDIA's device plugin.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.local.quantity import parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.local.node.machine.specs import NodeSpec

__all__ = [
    "OLDER_RESOURCE",
    "RESOURCE",
    "RESOURCES",
    "Gpu",
    "GpuAllocator",
    "machine_gpus",
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


class Gpu(Struct, frozen=True):
    """One NVIDIA GPU of this machine.

    Attributes:
        minor: N of its device file `/dev/nvidiaN`.
        uuid: The driver's name for it, such as ``GPU-d585c3dd-...``; empty if it has none yet.
    """

    minor: int
    uuid: str = ""


_DRIVER = Path("/proc/driver/nvidia/gpus")
_CONTROL = ("nvidia-caps", "nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools", "nvidiactl")
"""Device files of the driver, besides those of each GPU."""


def machine_gpus(driver: Path = _DRIVER) -> tuple[Gpu, ...]:
    """Return the GPUs that NVIDIA's driver lists, in the order of `nvidia-smi`; possibly none."""
    found = []
    for each in sorted(driver.glob("*/information")):
        try:
            lines = each.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        said = {name.strip(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
        if (minor := said.get("Device Minor", "")).isdecimal():
            uuid = said.get("GPU UUID", "")
            found.append(Gpu(int(minor), "" if "?" in uuid else uuid))
    return tuple(found)


class GpuAllocator:
    """Allocates the devices of the virtual nodes.

    Args:
        nodes: The nodes. Each gets consecutive devices, in their order.
        machine: The GPUs of the machine, if the driver lists them.
    """

    def __init__(self, nodes: Sequence[NodeSpec], machine: Sequence[Gpu] = ()) -> None:
        self._machine = machine
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

    def files(self, devices: Sequence[int]) -> list[str] | None:
        """Return the entries of `/dev` of NVIDIA's driver that a container may have.

        Args:
            devices: Allocated to it.

        Returns:
            Their names. None if all of them are left as they are: the nodes offer no GPUs, or it is
            not known which device file belongs to which GPU.
        """
        if not (self.any and self._machine):
            return None
        found = [f"nvidia{gpu.minor}" for gpu in self._gpus(devices)]
        return [*found, *_CONTROL] if found else []

    @property
    def are_real(self) -> bool:
        """Whether the driver lists the GPUs of this machine; otherwise they are only counted."""
        return bool(self._machine)

    def names(self, devices: Sequence[int], known: Sequence[str]) -> list[str]:
        """Return the names of GPUs among those that a specification of devices has.

        Args:
            devices: Allocated to a container.
            known: Names of the specification: indexes, or UUIDs of the driver.

        Returns:
            None at all if one of them is not there.
        """
        found = []
        for device in dict.fromkeys(self._index(device) for device in devices):
            uuid = self._machine[device].uuid if self._machine else ""
            name = next((each for each in (str(device), uuid) if each and each in known), None)
            if name is None:
                return []
            found.append(name)
        return found

    def variables(self, devices: Sequence[int], *, own_files: bool) -> dict[str, str]:
        """Return the variables that name the GPUs of a container; none if the nodes offer none.

        Args:
            devices: Allocated to it.
            own_files: Whether it has the device files of its own GPUs only.
        """
        if not self.any:
            return {}
        if own_files and self._machine:
            names = [gpu.uuid or str(gpu.minor) for gpu in self._gpus(devices)]
            return {"NVIDIA_VISIBLE_DEVICES": ",".join(names) or "void"}
        indexes = dict.fromkeys(self._index(device) for device in devices)
        listed = ",".join(str(index) for index in indexes)
        return {"CUDA_VISIBLE_DEVICES": listed, "NVIDIA_VISIBLE_DEVICES": listed or "void"}

    def _index(self, device: int) -> int:
        return device % len(self._machine) if self._machine else device

    def _gpus(self, devices: Sequence[int]) -> list[Gpu]:
        indexes = dict.fromkeys(self._index(device) for device in devices)
        return [self._machine[index] for index in indexes]
