"""Validates an MPIJob: each problem names the field, what is wrong, and the fix.

The schema's rules are repeated here, because a job may have been stored by another schema: that of
mpi-operator leaves most of it to the operator.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from traincrew.api import scheduling
from traincrew.api.kind import JOB_NAME
from traincrew.api.kinds.mpijob.types import (
    LAUNCHER,
    MAX_HOST_NAME,
    TYPES,
    WORKER,
    MPIJobSpec,
)
from traincrew.api.meta import ObjectMeta, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.api.kinds.mpijob.types import ReplicaSpec

_SPECS = "spec.mpiReplicaSpecs"


def problems(metadata: ObjectMeta, spec: MPIJobSpec) -> list[Problem]:
    """Return everything that keeps a job from running, each with its field and the fix."""
    found = list(_name_problems(metadata.name, spec))
    if LAUNCHER not in spec.mpi_replica_specs:
        found.append(Problem(f"{_SPECS}.{LAUNCHER}", "it is required: it runs mpirun; add it"))
    policy = spec.run_policy.scheduling_policy
    pods = spec.workers + 1
    found += scheduling.problems(policy, "spec.runPolicy.schedulingPolicy", pods)
    for name, replica in sorted(spec.mpi_replica_specs.items()):
        found += _replica_problems(name, replica)
    return found


def _name_problems(name: str, spec: MPIJobSpec) -> Iterator[Problem]:
    if not re.fullmatch(JOB_NAME, name):
        yield Problem(
            "metadata.name",
            "it becomes part of host names: it must begin with a letter and have only lower case"
            " letters, digits and '-'; choose another name",
        )
    hosts = [f"{name}-launcher", f"{name}-worker-{max(spec.workers, 1) - 1}"]
    longest = max(hosts, key=len)
    if len(longest) > MAX_HOST_NAME:
        yield Problem(
            "metadata.name",
            f"the pod {longest} would have a host name of {len(longest)} characters; at most"
            f" {MAX_HOST_NAME} are possible; shorten the name of the job",
        )


def _replica_problems(name: str, replica: ReplicaSpec) -> Iterator[Problem]:
    path = f"{_SPECS}.{name}"
    if name not in TYPES:
        yield Problem(path, f"there is no such type; write {LAUNCHER} or {WORKER}")
    if name == LAUNCHER and replica.count != 1:
        yield Problem(f"{path}.replicas", "there is one launcher; write 1")
    if name == WORKER and replica.replicas is None:
        yield Problem(f"{path}.replicas", "it is required; write the number of workers")
    pod = replica.template.get("spec")
    containers = pod.get("containers") if isinstance(pod, dict) else None
    if not containers:
        field = f"{path}.template.spec.containers"
        yield Problem(field, "at least one container is required; add it")
