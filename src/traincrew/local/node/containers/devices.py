"""What the devices of a container add to it, if its root is a container image's.

Containers of environments see the machine's files, so they have libraries and devices already.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from traincrew.local.node.fields.downward import FieldError
from traincrew.local.node.machine.cdi import CdiError, Edits, Registry, wanted
from traincrew.local.node.machine.driver import driver_files
from traincrew.local.node.machine.gpus import RESOURCE
from traincrew.local.node.runtime.processes import Mount

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.local.node.machine.gpus import GpuAllocator

__all__ = ["device_edits", "device_mounts", "device_variables"]


def device_edits(
    registry: Registry, gpus: GpuAllocator, devices: list[int], annotations: Mapping[str, str]
) -> Edits:
    """Return what devices add to a container.

    Args:
        registry: The specifications of the machine.
        gpus: The GPUs of the nodes.
        devices: Those of the container.
        annotations: Of its pod, which may name further devices.

    Raises:
        FieldError: A device that the pod names is in no specification, or that is wrong.
    """
    try:
        edits = registry.edits(wanted(annotations))
        if not devices:
            return edits
        if described := gpus.names(devices, registry.names(RESOURCE)):
            return edits + registry.edits(f"{RESOURCE}={name}" for name in described)
    except CdiError as error:
        raise FieldError(str(error)) from error
    return edits + driver_files() if gpus.are_real else edits


def device_mounts(edits: Edits) -> list[Mount]:
    """Return the mounts of the devices of a container."""
    mounts = [Mount("bind", each.target, each.source) for each in edits.devices]
    mounts += [
        Mount("bind", os.path.normpath(each.target), each.source, read_only=each.read_only)
        for each in edits.mounts
    ]
    return mounts + [Mount("symlink", path, to=to) for path, to in edits.links.items()]


def device_variables(edits: Edits, image: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the devices of a container.

    Args:
        edits: What the devices add.
        image: The variables of its image.
    """
    found = dict(edits.variables)
    if edits.libraries:
        # Runtimes run ldconfig in the container, which not every image has.
        path = [*edits.libraries, *filter(None, image.get("LD_LIBRARY_PATH", "").split(":"))]
        found["LD_LIBRARY_PATH"] = ":".join(dict.fromkeys(path))
    return found
