"""PyTorchJob: the kind of training-operator v1, and its defaults.

A PyTorchJob is a number of pods with PyTorch: a Master and Workers that find each other by
environment variables (``MASTER_ADDR``, ``RANK``, ``PET_*`` for torchrun), or Workers only that meet
at a rendezvous (``elasticPolicy``).

Fields, defaults and checks are those of training-operator 1.9.0: docs/design/todays-manifests.md
has its sources. As for every kind, rules that a schema or CEL can express are enforced when the
object is created (`traincrew.api.kinds.pytorchjob.definition`); what only code can check is found
by `traincrew.api.kinds.pytorchjob.rules`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field, structs

from traincrew.api.kind import Rule, rules
from traincrew.api.podtemplate import completed
from traincrew.api.runpolicy import NonNegative, Positive  # noqa: TC001 - msgspec reads them
from traincrew.api.trainingoperator import types as trainingoperator
from traincrew.api.trainingoperator.types import (
    MAX_REPLICAS,
    MAX_TYPES,
    RESTART_POLICIES,
    RestartPolicy,
    TrainingRunPolicy,
)

KIND = "PyTorchJob"
PLURAL = "pytorchjobs"

MASTER = "Master"
WORKER = "Worker"
TYPES = (MASTER, WORKER)
CONTAINER = "pytorch"
"""The container that trains."""
PORT_NAME = "pytorchjob-port"
"""Name of the port of a container at which its pod is reached."""
DEFAULT_PORT = 23456

REASONS = trainingoperator.reasons(KIND)

DEFAULT_RESTART_POLICY: RestartPolicy = "OnFailure"
Port = Annotated[int, Meta(ge=1, le=65535)]
AnyObject = Annotated[
    dict[str, Any],
    Meta(
        description="As in a HorizontalPodAutoscaler.",
        extra_json_schema={"x-kubernetes-preserve-unknown-fields": True},
    ),
]


class ReplicaSpec(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """Identical pods of one type."""

    template: Annotated[
        dict[str, Any],
        Meta(
            description=(
                f"Template of the pods. It must have a container named {CONTAINER}; a single"
                " container without a name gets this name."
            ),
            extra_json_schema={"x-pod-template": {}},
        ),
    ]
    replicas: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_REPLICAS)] | None,
        Meta(
            description=(
                f"Number of pods. That of the {MASTER} is required, and 1; that of the {WORKER}"
                " defaults to 1, and can be changed while the job runs, also by kubectl scale."
            ),
        ),
    ] = None
    restart_policy: Annotated[
        RestartPolicy | None,
        Meta(
            description=(
                "Restart policy of the pods; it overrides that of the template, and defaults to"
                f" {DEFAULT_RESTART_POLICY}. {RESTART_POLICIES}"
            ),
        ),
    ] = None

    @property
    def count(self) -> int:
        """The number of pods, with its default."""
        return 1 if self.replicas is None else self.replicas

    @property
    def policy(self) -> RestartPolicy:
        """The restart policy, with its default."""
        return self.restart_policy or DEFAULT_RESTART_POLICY


class RendezvousOption(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """An option of the rendezvous."""

    key: Annotated[str, Meta(description="Name of the option.")] = ""
    value: Annotated[str, Meta(description="Its value.")] = ""


class ElasticPolicy(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """How torchrun forms a group of Workers whose number may change."""

    min_replicas: Annotated[
        Positive | None,
        Meta(
            description=(
                "Training continues with at least this many pods. Defaults to maxReplicas, or the"
                f" replicas of the {WORKER}."
            )
        ),
    ] = None
    max_replicas: Annotated[
        Positive | None,
        Meta(
            description=(
                "Training can use up to this many pods. Defaults to minReplicas, or the replicas"
                f" of the {WORKER}."
            )
        ),
    ] = None
    rdzv_backend: Annotated[
        Annotated[str, Meta(max_length=63)] | None,
        Meta(
            description=(
                "Backend of the rendezvous, such as c10d (default), etcd or etcd-v2:"
                " PET_RDZV_BACKEND."
            ),
        ),
    ] = None
    rdzv_host: Annotated[
        Annotated[str, Meta(max_length=253)] | None,
        Meta(
            description="Host of the rendezvous. Defaults to the first Worker.",
        ),
    ] = None
    rdzv_port: Annotated[
        Port | None,
        Meta(
            description=(
                f"Port of the rendezvous. Defaults to the port of the Worker named {PORT_NAME},"
                f" or {DEFAULT_PORT}."
            )
        ),
    ] = None
    rdzv_id: Annotated[
        Annotated[str, Meta(max_length=253)] | None,
        Meta(description="ID of the run at the rendezvous: PET_RDZV_ID."),
    ] = None
    rdzv_conf: Annotated[
        list[RendezvousOption] | None,
        Meta(description="More options of the rendezvous: PET_RDZV_CONF."),
    ] = None
    standalone: Annotated[
        bool | None,
        Meta(
            description=(
                "Whether each pod is a group of its own, which needs no rendezvous: PET_STANDALONE."
            )
        ),
    ] = None
    n_proc_per_node: Annotated[
        Positive | None,
        Meta(description="Deprecated: write nprocPerNode of the spec."),
    ] = None
    max_restarts: Annotated[
        NonNegative | None,
        Meta(
            description=(
                "How often torchrun restarts the processes of a group that failed, before it fails:"
                " PET_MAX_RESTARTS."
            )
        ),
    ] = None
    metrics: Annotated[
        list[AnyObject] | None,
        Meta(
            description=(
                f"Metrics by which a HorizontalPodAutoscaler decides on replicas of the {WORKER},"
                " between minReplicas and maxReplicas. Without them there is none."
            )
        ),
    ] = None


class PyTorchJobSpec(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """``spec`` of a PyTorchJob."""

    pytorch_replica_specs: Annotated[
        dict[str, ReplicaSpec],
        Meta(
            max_length=MAX_TYPES,
            description=(
                f"The pods of the job, by type. With a {MASTER}, the job succeeds when that does;"
                f" without, when every {WORKER} does, or one if there is an elasticPolicy."
            ),
            extra_json_schema=rules(
                Rule(
                    rule="size(self) > 0",
                    message=f"write a {MASTER}, a {WORKER}, or both",
                ),
                Rule(
                    rule=f"self.all(t, t in {list(TYPES)})",
                    message=f"keys must be {MASTER} or {WORKER}",
                ),
                Rule(
                    rule=f"!('{MASTER}' in self) || (has(self.{MASTER}.replicas) &&"
                    f" self.{MASTER}.replicas == 1)",
                    message=f"{MASTER}.replicas must be 1",
                ),
            ),
        ),
    ]
    nproc_per_node: Annotated[
        Annotated[str, Meta(max_length=63)] | None,
        Meta(
            description=(
                "Number of processes that torchrun starts in each pod, or auto (default), cpu or"
                " gpu: PET_NPROC_PER_NODE."
            ),
        ),
    ] = None
    elastic_policy: Annotated[
        ElasticPolicy | None,
        Meta(
            description=(
                f"How torchrun forms a group of pods of the {WORKER}, whose number may change."
            )
        ),
    ] = None
    run_policy: Annotated[
        TrainingRunPolicy,
        Meta(description="Policies for suspending, retrying and cleaning up the job."),
    ] = field(default_factory=TrainingRunPolicy)

    @property
    def total(self) -> int:
        """The number of all pods."""
        return sum(each.count for each in self.pytorch_replica_specs.values())

    @property
    def has_master(self) -> bool:
        """Whether there is a Master."""
        return MASTER in self.pytorch_replica_specs

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and largest number of pods of an elastic group, with their defaults."""
        policy = self.elastic_policy or ElasticPolicy()
        worker = self.pytorch_replica_specs.get(WORKER)
        replicas = worker.count if worker is not None else 0
        low = policy.min_replicas or policy.max_replicas or replicas
        return low, policy.max_replicas or policy.min_replicas or replicas

    @property
    def processes_per_node(self) -> str | None:
        """The value of ``nprocPerNode``, with its default; None if the elastic policy has it."""
        if self.elastic_policy is not None and self.elastic_policy.n_proc_per_node is not None:
            return self.nproc_per_node
        return self.nproc_per_node or "auto"


def decode(spec: dict[str, Any]) -> PyTorchJobSpec:
    """Decode a stored ``spec``; templates are completed.

    Raises:
        msgspec.ValidationError: A field is missing or has the wrong type; the message has its path.
    """
    decoded = msgspec.convert(spec, PyTorchJobSpec)
    replicas = {
        name: structs.replace(each, template=completed(each.template, CONTAINER))
        for name, each in decoded.pytorch_replica_specs.items()
    }
    return structs.replace(decoded, pytorch_replica_specs=replicas)
