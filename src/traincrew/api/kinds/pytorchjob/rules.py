"""Validates a PyTorchJob: each problem names the field, what is wrong, and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api import scheduling
from traincrew.api.kinds.pytorchjob.types import (
    CONTAINER,
    MASTER,
    TYPES,
    WORKER,
    PyTorchJobSpec,
)
from traincrew.api.meta import ObjectMeta, Problem
from traincrew.api.trainingoperator.rules import name_problems, template_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.api.kinds.pytorchjob.types import ReplicaSpec

_SPECS = "spec.pytorchReplicaSpecs"


def problems(metadata: ObjectMeta, spec: PyTorchJobSpec) -> list[Problem]:
    """Return everything that keeps a job from running, each with its field and the fix."""
    found = list(name_problems(metadata.name, spec.pytorch_replica_specs))
    if not spec.pytorch_replica_specs:
        return [*found, Problem(_SPECS, f"write a {MASTER}, a {WORKER}, or both")]
    found += _elastic_problems(spec)
    policy = spec.run_policy.scheduling_policy
    found += scheduling.problems(policy, "spec.runPolicy.schedulingPolicy", spec.total)
    for name, replica in sorted(spec.pytorch_replica_specs.items()):
        found += _replica_problems(name, replica)
    return found


def _elastic_problems(spec: PyTorchJobSpec) -> Iterator[Problem]:
    policy = spec.elastic_policy
    if policy is None:
        return
    if WORKER not in spec.pytorch_replica_specs:
        yield Problem(
            f"{_SPECS}.{WORKER}", "it is required with an elasticPolicy; add it, or remove that"
        )
    if policy.n_proc_per_node is not None and spec.nproc_per_node is not None:
        yield Problem(
            "spec.elasticPolicy.nProcPerNode",
            "it is the same as spec.nprocPerNode; write only spec.nprocPerNode",
        )
    low, high = spec.limits
    if low > high:
        yield Problem(
            "spec.elasticPolicy.minReplicas", f"{low} is more than maxReplicas, {high}; lower it"
        )


def _replica_problems(name: str, replica: ReplicaSpec) -> Iterator[Problem]:
    path = f"{_SPECS}.{name}"
    if name not in TYPES:
        yield Problem(path, f"there is no such type; write {MASTER} or {WORKER}")
    if name == MASTER and replica.replicas != 1:
        yield Problem(f"{path}.replicas", "there is one master; write 1")
    yield from template_problems(path, replica.template, CONTAINER)
