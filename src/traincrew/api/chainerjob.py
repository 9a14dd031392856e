"""ChainerJob: the kind as users write it, its defaults and its rules.

A ChainerJob is a master and any number of worker sets. Without worker sets the master is all there
is; with them the job is *distributed*: MPI ranks on every pod, started from the master.

Rules come in two places. What a schema or CEL can say is refused when the object is created: the
annotations below become the CustomResourceDefinition (`traincrew.api.crd`). What only code can
know is found by `traincrew.api.chainerjob_rules`, and ends as a Failed job that names the field
and the fix.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from traincrew.api.kind import (
    AGE,
    COUNT,
    MESSAGE,
    PHASE,
    REASON,
    RESTARTS,
    Column,
    Kind,
    Rule,
    StatusWords,
    rules,
)
from traincrew.api.runpolicy import NonNegative, Positive, RunPolicy, Seconds

GROUP = "kubeflow.org"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "ChainerJob"
PLURAL = "chainerjobs"

CONTAINER = "chainer"
"""The container MPI processes run in."""
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
"""All worker pods are named in one Role, and counted in one status; both must stay far below what
etcd stores in one object (1.5 MiB). Kubernetes clusters have at most that many nodes."""

OWN_PREFIX = "chainer-operator-"
"""Volumes and init containers we add to distributed pods are named with it."""
OWN_MOUNTS = "/kubeflow/chainer-operator"
"""Our volumes are mounted below it."""


SET_NAME = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


class MPIConfig(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """What the hostfile says about the pods of a set."""

    slots: Annotated[
        Positive | None,
        Meta(
            description=(
                "MPI slots in the hostfile. Default: the nvidia.com/gpu limit of the container"
                f" {CONTAINER}, or 1."
            ),
        ),
    ] = None


class Master(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """The pod that starts the whole job; a Job keeps it."""

    template: Annotated[
        dict[str, Any],
        Meta(
            description=(
                "Pod template. Needs a container named chainer (a single unnamed one is named so);"
                " restartPolicy Never (default) or OnFailure."
            ),
            extra_json_schema={
                "x-pod-template": {"restart_policy": "Never", "container": CONTAINER}
            },
        ),
    ]
    active_deadline_seconds: Annotated[
        Seconds | None, Meta(description="Copied to the master's Job.")
    ] = None
    backoff_limit: Annotated[
        NonNegative | None, Meta(description="Copied to the master's Job, whose default is 6.")
    ] = None
    mpi_config: Annotated[
        MPIConfig | None, Meta(description="MPI settings; distributed jobs only.")
    ] = None


class WorkerSet(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """A set of equal pods that wait for ranks; a StatefulSet keeps them."""

    template: Annotated[
        dict[str, Any],
        Meta(
            description=(
                "Pod template. Needs a container named chainer (a single unnamed one is named so),"
                " which has to wait until it is stopped; restartPolicy Always (default)."
            ),
            extra_json_schema={
                "x-pod-template": {"restart_policy": "Always", "container": CONTAINER}
            },
        ),
    ]
    replicas: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_WORKERS,
            description="Number of worker pods. May be changed while the job runs.",
        ),
    ] = 1
    mpi_config: Annotated[MPIConfig | None, Meta(description="MPI settings.")] = None


_HAS_MAIN_CONTAINER = f"self.template.spec.containers.exists(c, c.name == '{CONTAINER}')"
_MASTER_RULES = rules(
    Rule(
        rule=f"size(self.template.spec.containers) == 1 || {_HAS_MAIN_CONTAINER}",
        message=f"one of template.spec.containers must be named '{CONTAINER}'",
    ),
    Rule(
        rule="self.template.spec.restartPolicy in ['Never', 'OnFailure']",
        message="template.spec.restartPolicy: the master is a Job, write Never or OnFailure",
    ),
)
_WORKER_SET_RULES = rules(
    Rule(
        rule=_HAS_MAIN_CONTAINER,
        message=f"one of template.spec.containers must be named '{CONTAINER}'",
    ),
    Rule(
        rule="self.template.spec.restartPolicy == 'Always'",
        message="template.spec.restartPolicy: workers are a StatefulSet, only Always is possible",
    ),
)
_NOT_DISTRIBUTED = "!has(self.{0}workerSets) || size(self.{0}workerSets) == 0"
SPEC_RULES = rules(
    Rule(
        rule=f"{_NOT_DISTRIBUTED.format('')} || "
        + _HAS_MAIN_CONTAINER.replace("self.", "self.master."),
        message=f"one of master.template.spec.containers must be named '{CONTAINER}'",
    ),
    Rule(
        rule=(
            "!has(self.runPolicy) || !has(self.runPolicy.backoffLimit)"
            " || !has(self.master.backoffLimit)"
        ),
        message="set master.backoffLimit or runPolicy.backoffLimit, not both",
    ),
)
"""Rules over ``spec``."""
JOB_RULES = rules(
    Rule(
        rule=f"size(self.metadata.name) <= {MAX_NAME}",
        message=(
            f"metadata.name must have at most {MAX_NAME} characters, because the Job is named"
            " <name>-master"
        ),
    ),
    Rule(
        rule=(
            "!has(self.spec.workerSets) || self.spec.workerSets.all(w,"
            f" size(self.metadata.name) + size(w) <= {MAX_NAME_AND_SET})"
        ),
        message=(
            "metadata.name and a key of spec.workerSets together must have at most"
            f" {MAX_NAME_AND_SET} characters, because the StatefulSet is named"
            " <name>-workerset-<key>"
        ),
    ),
    Rule(
        rule=f"{_NOT_DISTRIBUTED.format('spec.')} || !self.metadata.name.contains('.')",
        message=(
            "metadata.name of a distributed job becomes part of host names: replace '.' by '-'"
        ),
    ),
)
"""Rules over the whole object; the root is the only place where metadata can be seen."""


class ChainerJobSpec(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """``spec`` of a ChainerJob."""

    master: Annotated[
        Master,
        Meta(
            description="The pod that starts and ends the job; rank 0 runs in it.",
            extra_json_schema=_MASTER_RULES,
        ),
    ]
    worker_sets: Annotated[
        dict[str, Annotated[WorkerSet, Meta(extra_json_schema=_WORKER_SET_RULES)]],
        Meta(
            max_length=MAX_SETS,
            description=(
                "Sets of worker pods by name; each set is equal pods, sets may differ. Absent: not"
                " distributed, the master is all there is."
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
                "How processes of a distributed job find each other. Only mpi, the default;"
                " ignored without worker sets."
            ),
        ),
    ] = None
    run_policy: Annotated[
        RunPolicy,
        Meta(description="When the job runs, how often it is tried, what is left of it."),
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


CHAINER_JOB = Kind(
    group=GROUP,
    version=VERSION,
    kind=KIND,
    plural=PLURAL,
    short_names=("chj", "chjs", "chjob", "chjobs"),
    description="A Chainer training job: a master and sets of workers, connected by MPI.",
    spec=ChainerJobSpec,
    spec_rules=SPEC_RULES,
    rules=JOB_RULES,
    columns=(
        PHASE,
        Column(
            name="Workers",
            type="string",
            json_path=".status.workersReady",
            description="Worker pods that are ready, of those asked for.",
        ),
        RESTARTS,
        AGE,
        REASON,
        MESSAGE,
    ),
    status=StatusWords(
        start_time="When the master was started (again).",
        replicas="The master's pods, and those of every worker set by its name.",
        numbers={
            "active": "Pods that hold resources, terminating ones included.",
            "ready": "Pods that are ready.",
            "succeeded": "Of the master: 1 at success.",
            "failed": "Of the master: pods that failed.",
            "restarts": "How often pods and containers were started again.",
        },
        fields=dict.fromkeys(("active", "ready", "succeeded", "failed", "terminating"), COUNT),
        condition_times=("lastProbeTime", "lastTransitionTime"),
        words=(
            "`status` is the status of the master's Job (`conditions`, `startTime`,"
            " `completionTime`, `active`,\n`succeeded`, `failed` and so on), and beside it:"
        ),
    ),
)
"""What is installed on a cluster."""


def decode(spec: dict[str, Any]) -> ChainerJobSpec:
    """Read a stored ``spec``.

    Raises:
        msgspec.ValidationError: A field is missing or has the wrong type; the message has its path.
    """
    return msgspec.convert(spec, ChainerJobSpec)


# -- defaults that depend on other fields -----------------------------------------------------


def main_container(template: dict[str, Any]) -> dict[str, Any] | None:
    """The container named chainer, where MPI processes run; None when there is none."""
    containers = template.get("spec", {}).get("containers", [])
    return next((item for item in containers if item.get("name") == CONTAINER), None)


def with_named_container(template: dict[str, Any]) -> dict[str, Any]:
    """Name a single unnamed container; with several containers nothing is named.

    The schema default does this on the way in; a job stored before there was a schema, or run
    without one, gets it here.
    """
    containers = template.get("spec", {}).get("containers", [])
    if len(containers) != 1 or containers[0].get("name"):
        return template
    named = [{**containers[0], "name": CONTAINER}]
    return {**template, "spec": {**template["spec"], "containers": named}}


def slots(replica: Master | WorkerSet) -> int:
    """MPI slots of a pod: as written, else one per GPU of the main container, else 1."""
    if replica.mpi_config is not None and replica.mpi_config.slots is not None:
        return replica.mpi_config.slots
    container = main_container(with_named_container(replica.template)) or {}
    limit = container.get("resources", {}).get("limits", {}).get(GPU, 1)
    try:
        return max(1, int(limit))
    except ValueError:  # the API refuses GPUs that are not whole numbers, when the pod is made
        return 1


def computed_defaults(spec: ChainerJobSpec) -> dict[str, Any]:
    """What users read back in ``spec`` although they did not write it, as a merge patch.

    Static defaults are in the schema; these depend on other fields (contract: backend and slots
    are filled in for distributed jobs only). Empty when everything is written already.
    """
    if not spec.distributed:
        return {}
    patch: dict[str, Any] = {}
    if spec.backend is None:
        patch["backend"] = BACKEND
    if _lacks_slots(spec.master):
        patch["master"] = {"mpiConfig": {"slots": slots(spec.master)}}
    sets = {
        name: {"mpiConfig": {"slots": slots(workers)}}
        for name, workers in spec.worker_sets.items()
        if _lacks_slots(workers)
    }
    if sets:
        patch["workerSets"] = sets
    return {"spec": patch} if patch else {}


def _lacks_slots(replica: Master | WorkerSet) -> bool:
    return replica.mpi_config is None or replica.mpi_config.slots is None
