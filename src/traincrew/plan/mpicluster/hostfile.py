"""The hostfile: the hosts that mpiexec starts processes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.mpicluster.slots import slots
from traincrew.plan.mpicluster.children import Names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.api.kinds.mpicluster.types import MPIClusterSpec


def text(cluster: str, spec: MPIClusterSpec, workers: Iterable[int]) -> str:
    """Return the hostfile: the master first, which makes it rank 0, then the given workers.

    Without ``slots=`` Open MPI uses the number of cores of each host.
    """
    names, count = Names(cluster), slots(spec)
    suffix = f" slots={count}" if count is not None else ""
    pods = [names.master, *(names.worker(index) for index in sorted(workers))]
    return "".join(f"{names.host(pod)}{suffix}\n" for pod in pods)
