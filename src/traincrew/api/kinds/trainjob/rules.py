"""Checks a TrainJob against the runtime that it refers to, as the webhook of Trainer does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.trainjob import torchtune
from traincrew.api.kinds.trainjob.runtime import (
    CONTAINERS,
    DATASET,
    MODEL,
    OPEN_MPI,
    containers_of,
    pod_of,
)
from traincrew.api.kinds.trainjob.types import NODE
from traincrew.api.meta import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.api.kinds.trainjob.runtime import Runtime
    from traincrew.api.kinds.trainjob.types import TrainJobSpec

LAUNCHER = "launcher"
"""Name of the replicated job whose program is mpirun."""
TORCH_VARIABLES = (
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
    "PET_NNODES",
    "PET_NODE_RANK",
    "PET_NPROC_PER_NODE",
)
XGBOOST_VARIABLES = ("DMLC_NUM_WORKER", "DMLC_TASK_ID", "DMLC_TRACKER_PORT", "DMLC_TRACKER_URI")
_REF = "spec.runtimeRef"
_PATCHES = "spec.runtimePatches"


def problems(spec: TrainJobSpec, runtime: Runtime) -> list[Problem]:
    """Return everything that keeps a job from running with its runtime."""
    return [
        *_not_served(runtime),
        *_initializer(spec, runtime),
        *_patches(spec, runtime),
        *_frameworks(spec, runtime),
    ]


def _not_served(runtime: Runtime) -> Iterator[Problem]:
    """Yield what the runtime has that no job can have here."""
    title = f"{runtime.kind} {runtime.name}"
    policy = runtime.spec.policy
    if policy.flux is not None:
        yield Problem(_REF, f"{title} has mlPolicy.flux, which is not served here")
    if policy.mpi is not None and policy.mpi.mpi_implementation != OPEN_MPI:
        yield Problem(_REF, f"mlPolicy.mpi.mpiImplementation of {title} must be {OPEN_MPI}")
    if runtime.spec.pod_group_policy:
        text = "has a podGroupPolicy, which is not served here: remove it from the runtime"
        yield Problem(_REF, f"{title} {text}")


def _initializer(spec: TrainJobSpec, runtime: Runtime) -> Iterator[Problem]:
    wanted = spec.initializer
    if wanted is None:
        return
    jobs = {job.get("name"): job for job in runtime.spec.replicated_jobs}
    for step, given, what in (
        (DATASET, wanted.dataset, "datasetConfig"),
        (MODEL, wanted.model, "modelConfig"),
    ):
        if given is None:
            continue
        if step not in jobs:
            text = f"must have {step} job when trainJob is configured with input {what}"
            yield Problem(_REF, text)
        elif step not in containers_of(jobs[step]):
            yield Problem(_REF, f"must have container with name - {step} in the {step} job")


def _patches(spec: TrainJobSpec, runtime: Runtime) -> Iterator[Problem]:
    jobs = {job.get("name"): containers_of(job) for job in runtime.spec.replicated_jobs}
    for patch in spec.patches:
        for each in patch.replicated_jobs:
            name = each.get("name", "")
            if name not in jobs:
                text = "must not have replicated job that doesn't exist in the runtime job template"
                yield Problem(_PATCHES, f"{text}: {name}")
                continue
            for group in ("initContainers", "containers"):
                for container in pod_of(each).get(group) or []:
                    yield from _container(container, group.removesuffix("s"), name, jobs[name])


def _container(
    patch: dict[str, Any], kind: str, job: str, containers: set[str]
) -> Iterator[Problem]:
    name = patch.get("name")
    if name not in containers:
        text = f"must not have {kind} that doesn't exist in the runtime job {job}"
        yield Problem(_PATCHES, f"{text}: {name}")
    elif kind == "container" and patch.get("env") and name in CONTAINERS.values():
        names = f"{DATASET}, {MODEL}, {NODE}"
        yield Problem(_PATCHES, f"must not have envs for the {names} containers")


def _frameworks(spec: TrainJobSpec, runtime: Runtime) -> Iterator[Problem]:
    policy, trainer = runtime.spec.policy, spec.trainer
    if trainer is None:
        return
    names = [each.get("name", "") for each in trainer.env or []]
    if policy.torch is not None:
        if reserved := sorted({*names} & {*TORCH_VARIABLES}):
            text = f"must not have reserved envs, invalid envs configured: {reserved}"
            yield Problem("spec.trainer.env", text)
        if torchtune.is_meant(trainer):
            yield from torchtune.problems(spec, runtime)
    if policy.xgboost is not None:
        for index, name in enumerate(names):
            if name in XGBOOST_VARIABLES:
                path = f"spec.trainer.env[{index}]"
                yield Problem(path, f"{name} is reserved for the XGBoost runtime")
    if policy.mpi is not None and policy.mpi.run_launcher_as_node and (trainer.num_nodes or 1) > 1:
        jobs = {job.get("name") for job in runtime.spec.replicated_jobs}
        if not {LAUNCHER, NODE} <= jobs:
            text = (
                "must have 1 when MPI trainingRuntime with enabled runLauncherAsNode does not have"
                " either launcher and node"
            )
            yield Problem("spec.trainer.numNodes", text)
