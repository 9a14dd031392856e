"""Validates a PyTorchJob: each problem names the field, what is wrong, and the fix.

The schema's rules are repeated here, because a job may have been stored by another schema: that of
training-operator leaves most of it to a webhook.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from traincrew.api import scheduling
from traincrew.api.kinds.pytorchjob.types import (
    CONTAINER,
    JOB_NAME,
    MASTER,
    MAX_HOST_NAME,
    TYPES,
    WORKER,
    PyTorchJobSpec,
)
from traincrew.api.meta import ObjectMeta, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from traincrew.api.kinds.pytorchjob.types import ReplicaSpec

_SPECS = "spec.pytorchReplicaSpecs"


def problems(metadata: ObjectMeta, spec: PyTorchJobSpec) -> list[Problem]:
    """Return everything that keeps a job from running, each with its field and the fix."""
    found = list(_name_problems(metadata.name, spec))
    if not spec.pytorch_replica_specs:
        return [*found, Problem(_SPECS, f"write a {MASTER}, a {WORKER}, or both")]
    found += _elastic_problems(spec)
    policy = spec.run_policy.scheduling_policy
    found += scheduling.problems(policy, "spec.runPolicy.schedulingPolicy", spec.total)
    for name, replica in sorted(spec.pytorch_replica_specs.items()):
        found += _replica_problems(name, replica)
    return found


def _name_problems(name: str, spec: PyTorchJobSpec) -> Iterator[Problem]:
    if not re.fullmatch(JOB_NAME, name):
        yield Problem(
            "metadata.name",
            "it becomes part of host names: it must begin with a letter and have only lower case"
            " letters, digits and '-'; choose another name",
        )
    longest = max(
        (
            f"{name}-{kind.lower()}-{replica.count - 1}"
            for kind, replica in spec.pytorch_replica_specs.items()
        ),
        key=len,
        default="",
    )
    if len(longest) > MAX_HOST_NAME:
        yield Problem(
            "metadata.name",
            f"the pod {longest} would have a name of {len(longest)} characters; at most"
            f" {MAX_HOST_NAME} are possible; shorten the name of the job",
        )


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
    yield from _template_problems(f"{path}.template.spec.containers", replica.template)


def _template_problems(path: str, template: dict[str, Any]) -> Iterator[Problem]:
    pod = template.get("spec")
    given = pod.get("containers") if isinstance(pod, dict) else None
    containers = [each for each in given or () if isinstance(each, dict)]
    if not containers:
        yield Problem(path, f"at least one container is required, named {CONTAINER}")
        return
    names = Counter(str(each.get("name", "")) for each in containers)
    if CONTAINER not in names:
        there = ", ".join(map(repr, names))
        yield Problem(
            path, f"no container is named {CONTAINER}, only {there}; rename the one that trains"
        )
    for name, count in names.items():
        if count > 1:
            yield Problem(path, f"{count} containers are named '{name}'; rename all but one")
    for index, each in enumerate(containers):
        if not each.get("image"):
            yield Problem(f"{path}[{index}].image", "it is required; write the name of an image")
