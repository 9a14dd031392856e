"""Validates an MxJob: each problem names the field, what is wrong, and the fix.

The schema's rules are repeated here, because a job may have been stored before the schema was
installed, for example by the controller that this operator replaces.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from traincrew.api import scheduling
from traincrew.api.kind import JOB_NAME
from traincrew.api.kinds.mxjob.types import (
    CONTAINER,
    DIST,
    GENERATED_ID,
    LOCAL,
    MAX_NAME_AND_ID,
    RESTART_POLICIES,
    SCHEDULER,
    TYPES,
    WORKER,
)
from traincrew.api.meta import ObjectMeta, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.api.kinds.mxjob.types import MxJobSpec, ReplicaSpec

WRONG_NAME = (
    "it becomes part of host names: it must begin with a letter and have only lower case letters,"
    " digits and '-'"
)
MODES = "local (one worker) or dist (a scheduler, servers and workers)"
LOCAL_NEEDS = "jobMode local needs exactly one entry, a WORKER with replicas: 1"
EVERY_MODE_NEEDS = "the scheduler, servers and workers, or one worker"
DIST_NEEDS = "jobMode dist needs one entry each for SCHEDULER, SERVER and WORKER"


def problems(metadata: ObjectMeta, spec: MxJobSpec) -> list[Problem]:
    """Return everything that keeps a job from running, each with its field and the fix."""
    found = list(_name_problems(metadata.name, spec))
    if spec.replica_specs_misspelt is not None:
        found.append(Problem("spec.replica_specs", "the field is named replicaSpecs; rename it"))
    if spec.job_mode is None:
        found.append(Problem("spec.jobMode", f"it is required; write {MODES}"))
    if not spec.replica_specs:
        needs = {LOCAL: LOCAL_NEEDS, DIST: DIST_NEEDS}.get(spec.job_mode or "", EVERY_MODE_NEEDS)
        return [*found, Problem("spec.replicaSpecs", f"it is required: {needs}")]
    found += _type_problems(spec)
    total = sum(replica.replicas for replica in spec.replica_specs)
    policy = spec.run_policy.scheduling_policy
    found += scheduling.problems(policy, "spec.runPolicy.schedulingPolicy", total)
    for index, replica in enumerate(spec.replica_specs):
        found += _replica_problems(f"spec.replicaSpecs[{index}]", replica)
    return found


def _name_problems(name: str, spec: MxJobSpec) -> Iterator[Problem]:
    if not re.fullmatch(JOB_NAME, name):
        yield Problem("metadata.name", f"{WRONG_NAME}; choose another name")
    length = len(name) + len(spec.identifier or "x" * GENERATED_ID)
    if length > MAX_NAME_AND_ID:
        yield Problem(
            "metadata.name",
            f"it and spec.RuntimeId have {length} characters; at most {MAX_NAME_AND_ID} are"
            " possible, because the scheduler is named <name>-scheduler-<RuntimeId>-0; shorten it",
        )
    if None not in {spec.runtime_id, spec.runtime_id_alias} and (
        spec.runtime_id != spec.runtime_id_alias
    ):
        yield Problem("spec.runtimeId", "it is the same field as RuntimeId; write only RuntimeId")


def _type_problems(spec: MxJobSpec) -> Iterator[Problem]:
    counts = Counter(replica.mx_replica_type for replica in spec.replica_specs)
    for kind, count in counts.items():
        if count > 1:
            yield Problem(
                "spec.replicaSpecs",
                f"{count} entries have mxReplicaType {kind}; keep one and set its replicas",
            )
    if spec.distributed:
        if missing := [kind for kind in TYPES if kind not in counts]:
            text = f"{DIST_NEEDS}; there is none for {' and '.join(missing)}; add it"
            yield Problem("spec.replicaSpecs", text)
        if spec.replicas_of(SCHEDULER) > 1:
            yield Problem("spec.replicaSpecs", f"replicas of the {SCHEDULER} must be 1")
    elif spec.job_mode is not None and (set(counts) != {WORKER} or spec.replicas_of(WORKER) != 1):
        yield Problem("spec.replicaSpecs", f"{LOCAL_NEEDS}; for more, write jobMode: dist")


def _replica_problems(path: str, replica: ReplicaSpec) -> Iterator[Problem]:
    given = replica.ps_root_port, replica.ps_root_port_alias
    if None not in given and given[0] != given[1]:
        yield Problem(
            f"{path}.psRootPort", "it is the same field as PsRootPort; write only PsRootPort"
        )
    path = f"{path}.template"
    try:
        template = msgspec.convert(replica.template, _Template)
    except msgspec.ValidationError as error:
        yield Problem(path, f"it is not the template of a pod: {error}")
        return
    yield from _pod_problems(f"{path}.spec", template.spec)


def _pod_problems(path: str, pod: _Pod) -> Iterator[Problem]:
    if pod.restart_policy not in {None, *RESTART_POLICIES}:
        yield Problem(f"{path}.restartPolicy", "replicas come to an end; write Never or OnFailure")
    names = Counter(container.name for container in pod.containers)
    if CONTAINER not in names:
        there = f", only {', '.join(map(repr, names))}" if names else ""
        yield Problem(
            f"{path}.containers",
            f"there is no container named '{CONTAINER}'{there}; rename the one that trains",
        )
    for name, count in names.items():
        if count > 1:
            text = f"{count} containers are named '{name}'; give each a name of its own"
            yield Problem(f"{path}.containers", text)


# -- the parts of a template that the planner reads; the API server checks the rest of it ---------


class _Resources(Struct):
    limits: dict[str, Any] | None = None
    requests: dict[str, Any] | None = None


class _Container(Struct, rename="camel"):
    name: str = ""
    env: list[dict[str, Any]] | None = None
    resources: _Resources | None = None
    volume_mounts: list[dict[str, Any]] | None = None


class _Pod(Struct, rename="camel"):
    containers: list[_Container]
    init_containers: list[_Container] | None = None
    volumes: list[dict[str, Any]] | None = None
    restart_policy: str | None = None


class _Metadata(Struct):
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


class _Template(Struct):
    spec: _Pod
    metadata: _Metadata | None = None
