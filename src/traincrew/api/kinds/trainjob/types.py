"""TrainJob: the kind of Kubeflow Trainer, and its defaults.

A TrainJob is what a user wants to train; how it is trained, a runtime says, to which it refers.
From both a JobSet is made. Fields, defaults and checks are those of Trainer 2.2.0: docs/design/
trainjob.md has its sources. The runtimes are in `traincrew.api.kinds.trainjob.runtime`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from traincrew.api.kind import MULTI_KUEUE, Rule, rules
from traincrew.api.kinds.trainjob import schemas
from traincrew.api.kinds.trainjob.schemas import IMMUTABLE, MAX_TEXT
from traincrew.api.reasons import Cause, Reasons
from traincrew.api.runpolicy import CommonPolicy, Seconds

GROUP = "trainer.kubeflow.org"
VERSION = "v1alpha1"
KIND = "TrainJob"
PLURAL = "trainjobs"
RUNTIME = "TrainingRuntime"
CLUSTER_RUNTIME = "ClusterTrainingRuntime"
RUNTIMES = (CLUSTER_RUNTIME, RUNTIME)

MANAGER = "trainer.kubeflow.org/trainjob-controller"
"""Value of ``spec.managedBy`` of jobs that are not managed elsewhere."""
MAX_NODES = 5000
"""Maximum number of nodes: the size of the status still works with this many."""
NODE = "node"
"""The name of the container that trains, and of the replicated job that has it."""
REASONS = Reasons(
    {
        Cause.PROGRAM: "FailedJobs",
        Cause.BACKOFF_LIMIT: "ReachedMaxRestarts",
        Cause.REFUSED: "TrainJobResourcesCreationFailed",
    },
    {"TrainingRuntimeNotSupported": Cause.INVALID},
)
"""The reasons of the JobSet, and of Trainer."""
_DOMAIN_PATH = (
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
    r"/[A-Za-z0-9/_.~%!$&'()*+,;=:@-]+$"
)
"""A path with a domain before it, such as ``kueue.x-k8s.io/manager``."""

_WORD = "A word of the command."
Command = Annotated[
    list[Annotated[str, Meta(max_length=65536, description=_WORD)]], Meta(max_length=128)
]
Variable = Annotated[dict[str, Any], Meta(extra_json_schema=schemas.variables()["items"])]
Variables = Annotated[list[Variable], Meta(max_length=128, extra_json_schema=schemas.BY_NAME)]


UNSUPPORTED_RUNTIME = (
    f"unsupported runtime: kind must be {' or '.join(RUNTIMES)}, and apiGroup {GROUP}"
)


class RuntimeRef(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """The runtime of a job."""

    name: Annotated[
        str,
        Meta(min_length=1, max_length=MAX_TEXT, description="Name of the runtime."),
    ]
    api_group: Annotated[
        Annotated[str, Meta(max_length=MAX_TEXT)],
        Meta(description="API group of the runtime."),
    ] = GROUP
    kind: Annotated[
        Annotated[str, Meta(max_length=MAX_TEXT)],
        Meta(
            description=(
                f"{CLUSTER_RUNTIME}, of the whole cluster, or {RUNTIME}, in the namespace of the"
                " job."
            )
        ),
    ] = CLUSTER_RUNTIME

    @property
    def is_supported(self) -> bool:
        """Whether it is of a kind of runtimes; Trainer's definition allows any kind."""
        return self.kind in RUNTIMES and self.api_group == GROUP


class SecretRef(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """A Secret of the job's namespace."""

    name: Annotated[str, Meta(description="Its name.")] = ""


class Step(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """What is downloaded before the training."""

    storage_uri: Annotated[
        Annotated[str, Meta(max_length=2048)] | None,
        Meta(description="Where it is, as the variable STORAGE_URI of the initializer."),
    ] = None
    env: Annotated[
        Variables | None,
        Meta(description="Environment variables of the initializer."),
    ] = None
    secret_ref: Annotated[
        SecretRef | None,
        Meta(description="Secret whose keys are variables of the initializer: credentials."),
    ] = None


class Initializer(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """What is downloaded before the training, by replicated jobs of the runtime."""

    dataset: Annotated[Step | None, Meta(description="The dataset.")] = None
    model: Annotated[Step | None, Meta(description="The pre-trained model.")] = None


class Trainer(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """The training, where it differs from the runtime."""

    image: Annotated[
        Annotated[str, Meta(max_length=500)] | None,
        Meta(description="Image of the container that trains."),
    ] = None
    command: Annotated[Command | None, Meta(description="Its command.")] = None
    args: Annotated[Command | None, Meta(description="Its arguments.")] = None
    env: Annotated[Variables | None, Meta(description="Its environment variables.")] = None
    num_nodes: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_NODES)] | None,
        Meta(description="Number of nodes, which are pods. Defaults to that of the runtime."),
    ] = None
    resources_per_node: Annotated[
        dict[str, Any] | None,
        Meta(
            description="Resources of the container that trains.",
            extra_json_schema=schemas.resources(),
        ),
    ] = None
    num_proc_per_node: Annotated[
        Annotated[int, Meta(ge=1, le=2**31 - 1)] | None,
        Meta(
            description=(
                "Number of processes on each node. Defaults, with torch, to the number of CPUs that"
                " the node asks for, or to auto if it asks for GPUs."
            )
        ),
    ] = None


class RuntimePatch(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """What somebody changes of the runtime for this job."""

    manager: Annotated[
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=MAX_TEXT,
                pattern=_DOMAIN_PATH,
                extra_json_schema=IMMUTABLE,
            ),
        ],
        Meta(description="Whose patch it is: a domain and a path, such as example.com/me."),
    ]
    time: Annotated[
        str | None,
        Meta(
            description="When it was written last; nothing depends on it.",
            extra_json_schema={"format": "date-time"},
        ),
    ] = None
    training_runtime_spec: Annotated[
        dict[str, Any] | None,
        Meta(
            description=(
                "The patch: labels and annotations of the JobSet, and for each replicated job those"
                " of Jobs and pods, and fields of the pods."
            ),
            extra_json_schema=schemas.runtime_patch(),
        ),
    ] = None

    @property
    def template(self) -> dict[str, Any]:
        """What it changes of the JobSet's template."""
        return (self.training_runtime_spec or {}).get("template") or {}

    @property
    def replicated_jobs(self) -> list[dict[str, Any]]:
        """What it changes of replicated jobs."""
        return (self.template.get("spec") or {}).get("replicatedJobs") or []


class TrainJobSpec(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """``spec`` of a TrainJob."""

    runtime_ref: Annotated[
        RuntimeRef,
        Meta(
            description="The runtime of the job.",
            extra_json_schema=rules(
                Rule(rule="self == oldSelf", message="field is immutable"),
                Rule(
                    rule=f"self.apiGroup == '{GROUP}' && self.kind in {list(RUNTIMES)}",
                    message=UNSUPPORTED_RUNTIME,
                ),
            ),
        ),
    ]
    initializer: Annotated[
        Initializer | None,
        Meta(
            description="What is downloaded before the training.",
            extra_json_schema=IMMUTABLE,
        ),
    ] = None
    trainer: Annotated[
        Trainer | None,
        Meta(
            description="The training, where it differs from the runtime.",
            extra_json_schema=IMMUTABLE,
        ),
    ] = None
    runtime_patches: Annotated[
        Annotated[list[RuntimePatch], Meta(max_length=16)] | None,
        Meta(
            description=(
                "What is changed of the runtime for this job, by manager. It can be changed while"
                " the job is suspended."
            ),
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["manager"],
            },
        ),
    ] = None
    suspend: Annotated[
        bool,
        Meta(description="Whether the job is suspended, so that it has no pods."),
    ] = False
    active_deadline_seconds: Annotated[
        Seconds | None,
        Meta(
            description=(
                "Number of seconds that the job may be active, since it was created or resumed,"
                f" before it fails with reason {Cause.DEADLINE.value}, and its JobSet is deleted."
            ),
            extra_json_schema=IMMUTABLE,
        ),
    ] = None
    managed_by: Annotated[
        Annotated[str, Meta(max_length=MAX_TEXT)],
        Meta(
            description=(
                "Who manages the job: the operator of this cluster, or, with"
                f" {MULTI_KUEUE}, MultiKueue, which runs it on another cluster."
            ),
            extra_json_schema=rules(
                Rule(
                    rule=f"self in ['{MANAGER}', '{MULTI_KUEUE}']",
                    message=f"ManagedBy must be {MANAGER} or {MULTI_KUEUE} if set",
                ),
                Rule(rule="self == oldSelf", message="field is immutable"),
            ),
        ),
    ] = MANAGER

    @property
    def run_policy(self) -> CommonPolicy:
        """The parts of the policies of all kinds that a TrainJob has."""
        return CommonPolicy(
            suspend=self.suspend, active_deadline_seconds=self.active_deadline_seconds
        )

    @property
    def patches(self) -> list[RuntimePatch]:
        """What is changed of the runtime."""
        return self.runtime_patches or []


def decode(spec: dict[str, Any]) -> TrainJobSpec:
    """Decode a stored ``spec``.

    Raises:
        msgspec.ValidationError: A field is missing or has the wrong type; the message has its path.
    """
    return msgspec.convert(spec, TrainJobSpec)
