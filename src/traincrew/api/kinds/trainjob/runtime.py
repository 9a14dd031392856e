"""TrainingRuntime and ClusterTrainingRuntime: how TrainJobs are trained.

A runtime has the template of a JobSet, and a policy that says what the pods need in order to find
each other. Administrators, or users, write runtimes; jobs refer to them by name.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from msgspec import Struct, field

from traincrew.api.crd import pod_template
from traincrew.api.kind import Referenced, Rule, rules
from traincrew.api.kinds.trainjob import schemas
from traincrew.api.kinds.trainjob.types import CLUSTER_RUNTIME, GROUP, NODE, RUNTIME, VERSION

Document = dict[str, Any]

ANCESTOR = f"{GROUP}/trainjob-ancestor-step"
"""Label of the template of Jobs that a part of the TrainJob is for."""
FRAMEWORK = f"{GROUP}/framework"
"""Label of a runtime with the name of what its programs are written with."""
SUPPORT = f"{GROUP}/support"
DEPRECATED = "deprecated"
"""Value of `SUPPORT` of a runtime that is to be removed."""
TRAINER = "trainer"
DATASET = "dataset-initializer"
MODEL = "model-initializer"
CONTAINERS = {TRAINER: NODE, DATASET: DATASET, MODEL: MODEL}
"""The container of each such step."""
MAX_REPLICATED_JOBS = 64
OPEN_MPI = "OpenMPI"


class MPIPolicy(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """What ranks of MPI are given."""

    num_proc_per_node: int = 1
    mpi_implementation: str = OPEN_MPI
    ssh_auth_mount_path: str = "/root/.ssh"
    run_launcher_as_node: bool = False


class MLPolicy(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """How the pods of a job find each other; at most one of the frameworks is set."""

    num_nodes: int | None = None
    torch: dict[str, Any] | None = None
    mpi: MPIPolicy | None = None
    jax: dict[str, Any] | None = None
    xgboost: dict[str, Any] | None = None
    flux: dict[str, Any] | None = None


class TemplateMetadata(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """Labels and annotations of JobSets."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class Template(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """The template of a JobSet; its ``spec`` stays plain data, which the JobSet has."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: dict[str, Any] = field(default_factory=dict)


class RuntimeSpec(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """``spec`` of a runtime."""

    ml_policy: MLPolicy | None = None
    pod_group_policy: dict[str, Any] | None = None
    template: Template = Template()

    @property
    def policy(self) -> MLPolicy:
        """The policy; without one, that of programs that find each other by themselves."""
        return self.ml_policy or MLPolicy()

    @property
    def replicated_jobs(self) -> list[Document]:
        """The replicated jobs of the template."""
        return self.template.spec.get("replicatedJobs") or []


class Runtime(Struct, kw_only=True, frozen=True):
    """A runtime as stored."""

    kind: str
    name: str
    labels: dict[str, str]
    spec: RuntimeSpec

    @property
    def is_deprecated(self) -> bool:
        """Whether it is to be removed."""
        return self.labels.get(SUPPORT) == DEPRECATED


def decode_runtime(document: Document) -> Runtime:
    """Decode a stored runtime.

    Raises:
        msgspec.ValidationError: A field is missing or has the wrong type; the message has its path.
    """
    spec = msgspec.convert(document.get("spec") or {}, RuntimeSpec)
    for index, job in enumerate(spec.replicated_jobs):
        if not isinstance(pod_of(job).get("containers"), list):
            path = f"$.template.spec.replicatedJobs[{index}].template.spec.template.spec"
            raise msgspec.ValidationError(f"Expected `array` - at `{path}.containers`")
    metadata = document["metadata"]
    return Runtime(
        kind=document["kind"],
        name=metadata["name"],
        labels=metadata.get("labels") or {},
        spec=spec,
    )


def step_of(job: Document) -> str:
    """Return the step of a TrainJob that a replicated job is for; empty for none."""
    labels = ((job.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return str(labels.get(ANCESTOR, ""))


def pod_of(job: Document) -> Document:
    """Return ``spec`` of the pods of a replicated job; empty if it has none."""
    node: Any = job
    for name in ("template", "spec", "template", "spec"):
        node = node.get(name) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else {}


def containers_of(job: Document) -> set[str]:
    """Return the names of the containers of a replicated job, init containers included."""
    pod = pod_of(job)
    found = [*(pod.get("initContainers") or []), *pod["containers"]]
    return {each.get("name", "") for each in found}


# -- the definitions --------------------------------------------------------------------------

_STEP = f"self.template.?metadata.labels[?'{ANCESTOR}'].orValue('')"
_POD = "self.template.spec.template.spec"


def _container_rule(step: str, container: str) -> Rule:
    return Rule(
        rule=f"{_STEP} != '{step}' || {_POD}.containers.exists(c, c.?name.orValue('') =="
        f" '{container}')",
        message=f"must contain the required container for the ancestor: {step}",
    )


def _replicated_jobs() -> Document:
    """Return the schema of the replicated jobs; the API of JobSets checks the rest of them."""
    job = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "required": ["template"],
        "properties": {"template": pod_template()},
    }
    template = {
        "type": "object",
        "required": ["spec"],
        "properties": {"metadata": schemas.metadata(), "spec": job},
    }
    items = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "required": ["name", "template"],
        "properties": {
            "name": {"type": "string", "maxLength": 63, "description": "Part of names of pods."},
            "replicas": {
                "type": "integer",
                "format": "int32",
                "description": "Number of Jobs: 1 for a step of the TrainJob.",
            },
            "template": {**template, "description": "Template of the Jobs, as in batch/v1."},
        },
        **rules(
            Rule(
                rule=f"!({_STEP} in {list(CONTAINERS)}) || self.?replicas.orValue(1) == 1",
                message="replicas always must be 1",
            ),
            *(_container_rule(step, name) for step, name in CONTAINERS.items()),
        ),
    }
    return {
        "type": "array",
        "maxItems": MAX_REPLICATED_JOBS,
        "description": "The Jobs of the JobSet.",
        "items": items,
        **schemas.BY_NAME,
    }


def _ml_policy() -> Document:
    count = {"type": "integer", "format": "int32"}
    frameworks = ("torch", "mpi", "jax", "xgboost", "flux")
    there = ", ".join(f"has(self.{name})" for name in frameworks)
    nothing = {"type": "object"}
    mpi = {
        "numProcPerNode": {**count, "default": 1},
        "mpiImplementation": {"type": "string", "default": OPEN_MPI, "enum": [OPEN_MPI, ""]},
        "sshAuthMountPath": {"type": "string", "default": "/root/.ssh", "maxLength": 4096},
        "runLauncherAsNode": {"type": "boolean", "default": False},
    }
    processes = {**count, "default": 1, "minimum": 1}
    return {
        "type": "object",
        "description": "How pods find each other; without a framework, by themselves.",
        "properties": {
            "numNodes": {**count, "description": "Number of nodes. Defaults to 1."},
            "torch": {**nothing, "description": "torchrun: variables PET_*."},
            "mpi": {
                "type": "object",
                "description": "MPI: ssh keys, a hostfile and variables for mpirun.",
                "properties": mpi,
            },
            "jax": {**nothing, "description": "JAX: variables JAX_*."},
            "xgboost": {**nothing, "description": "XGBoost: variables DMLC_*."},
            "flux": {
                "type": "object",
                "description": "Flux; it is not served here.",
                "properties": {"numProcPerNode": processes},
            },
        },
        **rules(
            Rule(
                rule=f"[{there}].filter(x, x).size() <= 1",
                message="Only one of the policy can be configured",
            )
        ),
    }


def _spec() -> Document:
    timeout = {"type": "integer", "format": "int32", "default": 60}
    topology = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "type": "object",
        "minProperties": 1,
        "description": "How jobs are trained.",
        "properties": {
            "mlPolicy": _ml_policy(),
            "podGroupPolicy": {
                "type": "object",
                "description": "Gang scheduling of the pods; it is not served here.",
                "properties": {
                    "coscheduling": {
                        "type": "object",
                        "properties": {"scheduleTimeoutSeconds": timeout},
                    },
                    "volcano": {"type": "object", "properties": {"networkTopology": topology}},
                },
            },
            "template": {
                "type": "object",
                "description": "Template of the JobSets.",
                "properties": {
                    "metadata": schemas.metadata(),
                    "spec": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "description": "As in the spec of a JobSet.",
                        "properties": {"replicatedJobs": _replicated_jobs()},
                    },
                },
            },
        },
    }


def definitions() -> tuple[Referenced, ...]:
    """Return the definitions of the two kinds, which differ in their scope."""
    spec = _spec()
    return (
        Referenced(
            group=GROUP,
            version=VERSION,
            kind=CLUSTER_RUNTIME,
            plural="clustertrainingruntimes",
            namespaced=False,
            description="How TrainJobs of any namespace are trained.",
            spec=spec,
        ),
        Referenced(
            group=GROUP,
            version=VERSION,
            kind=RUNTIME,
            plural="trainingruntimes",
            description="How TrainJobs of its namespace are trained.",
            spec=copy.deepcopy(spec),
        ),
    )
