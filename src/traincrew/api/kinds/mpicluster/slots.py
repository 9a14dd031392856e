"""MPICluster: defaults that depend on other fields."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.mpicluster.types import WORKER_CONTAINER

if TYPE_CHECKING:
    from traincrew.api.kinds.mpicluster.types import MPIClusterSpec

GPU = re.compile(r"(^|[/-])gpu(\.|$)")
"""Occurs in the names of GPU resources: nvidia.com/gpu, gpu.intel.com/i915, gpu."""


def slots(spec: MPIClusterSpec) -> int | None:
    """Return the slots of each host in the hostfile; None if it says nothing of slots.

    As written, else the number of GPUs of the container mpi-worker, of any vendor.
    """
    if spec.slots is not None:
        return spec.slots
    containers = spec.workers.template.get("spec", {}).get("containers", [])
    resources: dict[str, Any] = next(
        (
            each.get("resources") or {}
            for each in containers
            if each.get("name") == WORKER_CONTAINER
        ),
        {},
    )
    asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return sum(_whole(value) for name, value in asked.items() if GPU.search(name)) or None


def _whole(quantity: Any) -> int:
    try:
        return max(0, int(quantity))
    except (TypeError, ValueError):  # the API refuses the pod: GPUs must be whole numbers
        return 0
