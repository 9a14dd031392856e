"""How many processes a node has by the resources that it asks for."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.trainjob.runtime import TRAINER, pod_of, step_of
from traincrew.api.kinds.trainjob.types import NODE

if TYPE_CHECKING:
    from traincrew.api.kinds.trainjob.runtime import Runtime
    from traincrew.api.kinds.trainjob.types import TrainJobSpec

_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    **{name: Decimal(1024 ** (power + 1)) for power, name in enumerate(("Ki", "Mi", "Gi", "Ti"))},
}


def per_node(spec: TrainJobSpec, runtime: Runtime) -> dict[str, Any]:
    """Return the resources of a node: those of the job, or else of its runtime."""
    if spec.trainer is not None and spec.trainer.resources_per_node is not None:
        return spec.trainer.resources_per_node
    for job in runtime.spec.replicated_jobs:
        if job.get("name") == NODE or step_of(job) == TRAINER:
            for container in pod_of(job)["containers"]:
                if container.get("name") == NODE and container.get("resources"):
                    found: dict[str, Any] = container["resources"]
                    return found
    return {}


def gpus(resources: dict[str, Any]) -> int:
    """Return the number of GPUs, of whatever vendor."""
    for part in ("requests", "limits"):
        for name, amount in (resources.get(part) or {}).items():
            if "gpu" in name.lower() and (count := _count(amount)) > 0:
                return count
    return 0


def cpus(resources: dict[str, Any]) -> int:
    """Return the number of CPUs, rounded up; 0 if none are asked for."""
    requested = _count((resources.get("requests") or {}).get("cpu", 0))
    return requested or _count((resources.get("limits") or {}).get("cpu", 0))


def _count(amount: Any) -> int:
    """Return a quantity as a whole number, rounded up; 0 for one that the API will refuse."""
    text = str(amount)
    number = text.rstrip("".join(sorted({*"".join(_SUFFIXES)})))
    factor = _SUFFIXES.get(text[len(number) :], Decimal(1))
    try:
        return min(math.ceil(Decimal(number) * factor), 2**31 - 1)
    except (InvalidOperation, OverflowError, ValueError):
        return 0
