"""ChainerJob: the kind as users write it, its defaults and the rules of single fields.

A ChainerJob is a master and any number of worker sets. Without worker sets only the master runs;
with them the job is *distributed*: MPI ranks on every pod, started from the master.

There are two kinds of rules. Those that a schema or CEL can express are enforced when the object is
created: the annotations below become the CustomResourceDefinition (`traincrew.api.crd`), together
with `traincrew.api.kinds.chainerjob.definition`. What only code can check is found by
`traincrew.api.kinds.chainerjob.rules`: the job fails with a message that names field and fix.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct, field, structs

from traincrew.api.kind import (
    Rule,
    rules,
)
from traincrew.api.podtemplate import completed, has_container
from traincrew.api.runpolicy import NonNegative, Positive, RunPolicy, Seconds

GROUP = "kubeflow.org"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "ChainerJob"
PLURAL = "chainerjobs"

CONTAINER = "chainer"
"""The container that MPI processes run in."""
BACKEND = "mpi"
MASTER = "master"
"""The master's name in ``status.replicaStatuses``, beside those of the worker sets."""
GPU = "nvidia.com/gpu"

MAX_NAME = 56
"""``<name>-master`` is a label value of the Job's pods, at most 63 characters."""
MAX_NAME_AND_SET = 41
"""``<name>-workerset-<set>`` plus an 11 character revision is a label value of worker pods."""
MAX_SETS = 64
MAX_WORKERS = 5000
"""All worker pods are named in one Role, and recorded in one status; both must stay far below the
size limit of an object in etcd (1.5 MiB). Kubernetes clusters have at most this many nodes."""

OWN_PREFIX = "chainer-operator-"
"""Prefix of the names of volumes and init containers that we add to distributed pods."""
OWN_MOUNTS = "/kubeflow/chainer-operator"
"""Directory below which our volumes are mounted."""


SET_NAME = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


class MPIConfig(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """The entries of a set's pods in the hostfile."""

    slots: Annotated[
        Positive | None,
        Meta(
            description=(
                "Number of MPI slots of each pod in the hostfile. Defaults to the"
                " nvidia.com/gpu limit of the container chainer, or 1."
            ),
        ),
    ] = None


class Master(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """The pod that starts the whole job; it is managed by a Job."""

    template: Annotated[
        dict[str, Any],
        Meta(
            description=(
                "Template of the master pod. It must have a container named chainer; a single"
                " container without a name gets this name. restartPolicy must be Never"
                " (default) or OnFailure."
            ),
            extra_json_schema={"x-pod-template": {"restart_policy": "Never"}},
        ),
    ]
    active_deadline_seconds: Annotated[
        Seconds | None, Meta(description="activeDeadlineSeconds of the master's Job.")
    ] = None
    backoff_limit: Annotated[
        NonNegative | None, Meta(description="backoffLimit of the master's Job. Defaults to 6.")
    ] = None
    mpi_config: Annotated[
        MPIConfig | None,
        Meta(description="MPI settings of the master. Used only if workerSets is not empty."),
    ] = None


class WorkerSet(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """A set of identical worker pods, managed by a StatefulSet."""

    template: Annotated[
        dict[str, Any],
        Meta(
            description=(
                "Template of the worker pods. It must have a container named chainer; a"
                " single container without a name gets this name. The container must keep"
                " running until it is stopped. restartPolicy must be Always (default)."
            ),
            extra_json_schema={"x-pod-template": {"restart_policy": "Always"}},
        ),
    ]
    replicas: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_WORKERS,
            description="Number of worker pods. It can be changed while the job runs.",
        ),
    ] = 1
    mpi_config: Annotated[
        MPIConfig | None, Meta(description="MPI settings of the worker pods.")
    ] = None


HAS_MAIN_CONTAINER = has_container("self.template", CONTAINER)
_MASTER_RULES = rules(
    Rule(
        rule=f"size(self.template.spec.containers) == 1 || {HAS_MAIN_CONTAINER}",
        message=f"one of template.spec.containers must be named '{CONTAINER}'",
    ),
    Rule(
        rule="self.template.spec.restartPolicy in ['Never', 'OnFailure']",
        message="template.spec.restartPolicy: the master is a Job, write Never or OnFailure",
    ),
)
_WORKER_SET_RULES = rules(
    Rule(
        rule=HAS_MAIN_CONTAINER,
        message=f"one of template.spec.containers must be named '{CONTAINER}'",
    ),
    Rule(
        rule="self.template.spec.restartPolicy == 'Always'",
        message="template.spec.restartPolicy: workers are a StatefulSet, only Always is possible",
    ),
)


_Replica = TypeVar("_Replica", Master, WorkerSet)


class ChainerJobSpec(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """``spec`` of a ChainerJob."""

    master: Annotated[
        Master,
        Meta(
            description="The master pod. It runs rank 0 and decides how the job ends.",
            extra_json_schema=_MASTER_RULES,
        ),
    ]
    worker_sets: Annotated[
        dict[str, Annotated[WorkerSet, Meta(extra_json_schema=_WORKER_SET_RULES)]],
        Meta(
            max_length=MAX_SETS,
            description=(
                "Sets of worker pods, by name. The pods of one set are identical. If it is"
                " not set, the job is not distributed and only the master runs."
            ),
            extra_json_schema=rules(
                Rule(
                    rule=f"self.all(w, w.matches('{SET_NAME}'))",
                    message=(
                        "keys must be lower case letters, digits and '-', and begin and end with"
                        " a letter or digit"
                    ),
                ),
                Rule(
                    rule=f"self.all(w, w != '{MASTER}')",
                    message=f"'{MASTER}' is what the master is called in status.replicaStatuses",
                ),
            ),
        ),
    ] = field(default_factory=dict)
    backend: Annotated[
        Annotated[str, Meta(max_length=63)] | None,
        Meta(
            description=(
                "Backend by which the processes of a distributed job communicate. mpi"
                " (default) is the only one. Ignored without workerSets."
            ),
        ),
    ] = None
    run_policy: Annotated[
        RunPolicy,
        Meta(description="Policies for suspending, retrying, timing out and cleaning up the job."),
    ] = RunPolicy()

    @property
    def distributed(self) -> bool:
        """Whether there are worker sets."""
        return bool(self.worker_sets)

    @property
    def backoff_limit(self) -> int | None:
        """Retries of the master; None means the Job's own default."""
        if self.master.backoff_limit is not None:
            return self.master.backoff_limit
        return self.run_policy.backoff_limit

    @property
    def active_deadline_seconds(self) -> int | None:
        """Seconds the master may be active: the shorter of the two that can be given."""
        given = [
            seconds
            for seconds in (
                self.master.active_deadline_seconds,
                self.run_policy.active_deadline_seconds,
            )
            if seconds is not None
        ]
        return min(given, default=None)


def decode(spec: dict[str, Any]) -> ChainerJobSpec:
    """Decode a stored ``spec``; templates are completed.

    Raises:
        msgspec.ValidationError: A field is missing or has the wrong type; the message has its path.
    """
    decoded = msgspec.convert(spec, ChainerJobSpec)
    sets = {name: _named(workers) for name, workers in decoded.worker_sets.items()}
    return structs.replace(decoded, master=_named(decoded.master), worker_sets=sets)


def _named(replica: _Replica) -> _Replica:
    template = completed(replica.template, CONTAINER)
    return structs.replace(replica, template=template)


# -- defaults that depend on other fields -----------------------------------------------------


def main_container(template: dict[str, Any]) -> dict[str, Any] | None:
    """Return the container named chainer, where MPI processes run; None if there is none."""
    containers = template.get("spec", {}).get("containers", [])
    return next((item for item in containers if item.get("name") == CONTAINER), None)


def slots(replica: Master | WorkerSet) -> int:
    """Return the MPI slots of a pod: as written, else one per GPU of the main container, else 1."""
    if replica.mpi_config is not None and replica.mpi_config.slots is not None:
        return replica.mpi_config.slots
    container = main_container(replica.template) or {}
    limit = container.get("resources", {}).get("limits", {}).get(GPU, 1)
    try:
        return max(1, int(limit))
    except ValueError:  # the API refuses the pod: GPUs must be whole numbers
        return 1
