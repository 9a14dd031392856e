"""Validates an MXJob: each problem names the field, what is wrong, and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api import scheduling
from traincrew.api.kinds.mxjobv1.types import CONTAINER, SCHEDULER, TYPES
from traincrew.api.meta import Problem
from traincrew.api.trainingoperator.rules import name_problems, template_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.api.kinds.mxjobv1.types import MXJobSpec, ReplicaSpec
    from traincrew.api.meta import ObjectMeta

_SPECS = "spec.mxReplicaSpecs"


def problems(metadata: ObjectMeta, spec: MXJobSpec) -> list[Problem]:
    """Return everything that keeps a job from running, each with its field and the fix."""
    found = list(name_problems(metadata.name, spec.mx_replica_specs))
    if not spec.mx_replica_specs:
        return [*found, Problem(_SPECS, "write a Scheduler, a Server and a Worker, or one Worker")]
    policy = spec.run_policy.scheduling_policy
    found += scheduling.problems(policy, "spec.runPolicy.schedulingPolicy", spec.total)
    for name, replica in sorted(spec.mx_replica_specs.items()):
        found += _replica_problems(name, replica)
    return found


def _replica_problems(name: str, replica: ReplicaSpec) -> Iterator[Problem]:
    path = f"{_SPECS}.{name}"
    if name not in TYPES:
        yield Problem(path, f"there is no such type; write one of {', '.join(TYPES)}")
    if name == SCHEDULER and replica.count != 1:
        yield Problem(f"{path}.replicas", "there is one scheduler; write 1")
    yield from template_problems(path, replica.template, CONTAINER)
