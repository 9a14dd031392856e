"""ElasticJob: the kind as users write it, and its defaults.

An ElasticJob is a number of identical workers, each a pod that runs an elastic launcher (torchrun).
They find each other at a rendezvous, and training continues when workers join or leave, as long as
there are between ``minReplicas`` and ``maxReplicas`` of them.

As for every kind, rules that a schema or CEL can express are enforced when the object is created
(`traincrew.api.kinds.elasticjob.definition`); what only code can check is found by
`traincrew.api.kinds.elasticjob.rules`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, structs

from traincrew.api import placeholders, podtemplate
from traincrew.api.kind import Rule, rules
from traincrew.api.podtemplate import completed
from traincrew.api.reasons import Cause, Reasons
from traincrew.api.runpolicy import (
    CleanPodPolicy,
    CommonPolicy,
    NonNegative,
    Positive,
    SchedulingPolicy,
    Seconds,
)

GROUP = "elastic.pytorch.org"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "ElasticJob"
PLURAL = "elasticjobs"

WORKER = "Worker"
"""The replicas that train. Other types have pods and Services as well, without further effect."""
CONTAINER = "elasticjob-worker"
"""The container that the launcher runs in, if one has this name; else it is the first one."""
C10D = "c10d"
ETCD = "etcd"

MAX_REPLICAS = 5000
"""Maximum per type: the rendezvous, and the size of the status, still work with this many."""
MAX_TYPES = 8
MAX_NAME_AND_TYPE = 57
"""``<name>-<type>-<index>`` is a host name, at most 63 characters with an index of 4 digits."""

TYPE_NAME = "^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$"

_JOB_FAILED = "JobFailed"
REASONS = Reasons(
    {
        Cause.DEADLINE: _JOB_FAILED,
        Cause.BACKOFF_LIMIT: _JOB_FAILED,
        Cause.REFUSED: "FailedCreate{kind}",
        Cause.PROGRAM: f"{KIND}Failed",
    }
)
"""The reasons of TorchElastic's controller, which are those of kubeflow/common at its time."""

RestartPolicy = Literal["Always", "OnFailure", "Never", "ExitCode"]


class FitAvailable(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """How a job runs with less capacity than it asks for."""

    after_seconds: Annotated[
        Positive,
        Meta(
            description=(
                "Number of seconds a worker may be unschedulable before it is given up."
                " Defaults to 60."
            ),
        ),
    ] = 60
    retry_seconds: Annotated[
        Positive,
        Meta(
            description=(
                "Number of seconds after the last worker was given up until one of them is"
                " retried; as soon as that one is scheduled, the next one is. Defaults to 300."
            ),
        ),
    ] = 300


class ReplicaSpec(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """Identical pods of one type."""

    template: Annotated[
        dict[str, Any],
        Meta(
            description=(
                "Template of the pods. The launcher's arguments are inserted before the args"
                f" of the container named {CONTAINER}, or of the first container if there is"
                " none of that name. Its command, or the image's entrypoint, must be the"
                " launcher."
            ),
            extra_json_schema={"x-pod-template": {}},
        ),
    ]
    replicas: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_REPLICAS,
            description=(
                "Number of pods. It can be changed while the job runs, also by kubectl scale;"
                " pods with the highest indexes are created last and deleted first."
            ),
        ),
    ] = 1
    restart_policy: Annotated[
        RestartPolicy | None,
        Meta(
            description=(
                "Restart policy of the pods; it overrides that of the template. ExitCode: a"
                " pod whose container exits with 130, 137, 138 or 143, or that is evicted, is"
                " recreated; any other exit code but 0 is a permanent failure. OnFailure,"
                " Always: containers are restarted in their pod. Never: the first failure is"
                " permanent. Defaults to the template's restartPolicy, or Never."
            ),
        ),
    ] = None


class ElasticJobSpec(CommonPolicy, kw_only=True, frozen=True):
    """``spec`` of an ElasticJob; the run policy is a part of it."""

    replica_specs: Annotated[
        dict[str, ReplicaSpec],
        Meta(
            max_length=MAX_TYPES,
            description=(
                f"The replicas of the job, by type. The pods of type {WORKER} run the training"
                " and decide how the job ends; pods and Services of other types are managed in"
                " the same way."
            ),
            extra_json_schema=rules(
                Rule(
                    rule=f"'{WORKER}' in self",
                    message=f"the key '{WORKER}' is required: those pods train",
                ),
                Rule(
                    rule=f"self.all(t, t.matches('{TYPE_NAME}'))",
                    message=(
                        "keys must be letters, digits and '-', and begin and end with a letter or"
                        " digit"
                    ),
                ),
            ),
        ),
    ]
    rdzv_endpoint: Annotated[
        Annotated[
            str, Meta(min_length=1, max_length=1024, extra_json_schema=rules(placeholders.NONE))
        ]
        | None,
        Meta(
            description=(
                "Endpoint (host:port) of the rendezvous, for example of an etcd that serves"
                " its v2 API. If it is not set, the first worker serves the rendezvous (c10d)."
            ),
        ),
    ] = None
    rdzv_backend: Annotated[
        Annotated[str, Meta(pattern="^[A-Za-z0-9][-A-Za-z0-9_.]*$", max_length=63)] | None,
        Meta(
            description=(
                "Rendezvous backend, for --rdzv_backend: etcd (default if rdzvEndpoint is"
                " set), etcd-v2, c10d (default if it is not), or any other that the launcher"
                " supports."
            ),
        ),
    ] = None
    rdzv_id: Annotated[
        Annotated[str, Meta(min_length=1, max_length=253)] | None,
        Meta(
            description=(
                "ID of the run at the rendezvous, for --rdzv_id. Defaults to the name of the"
                " job; if the first worker serves the rendezvous, a part of the job's UID is"
                " added."
            ),
        ),
    ] = None
    min_replicas: Annotated[
        Positive | None,
        Meta(
            description=(
                "Training continues with at least this many workers. Defaults to the replicas"
                f" of {WORKER} when the first workers are created; status.minReplicas is the limit"
                " in use."
            )
        ),
    ] = None
    max_replicas: Annotated[
        Positive | None,
        Meta(
            description=(
                "Training can use up to this many workers. Defaults to the replicas of"
                f" {WORKER} when the first workers are created; status.maxReplicas is the limit in"
                " use."
            )
        ),
    ] = None
    fit_available: Annotated[
        FitAvailable | None,
        Meta(
            description=(
                "Lets the job run with the capacity that there is: workers that cannot be"
                " scheduled are given up, down to minReplicas, and retried later. Running pods"
                " are never given up, nor is the first worker if it serves the rendezvous. If"
                " it is not set, the job waits until all workers can be scheduled. An empty"
                " object ({}) selects the defaults."
            ),
        ),
    ] = None
    active_deadline_seconds: Annotated[
        Seconds | None,
        Meta(
            description=(
                "Number of seconds that the job may be active, counted from status.startTime,"
                f" before it fails with reason {_JOB_FAILED}. The time while the job is suspended"
                " does not count."
            ),
        ),
    ] = None
    progress_deadline_seconds: Annotated[
        Positive | None,
        Meta(
            description=(
                "Number of seconds that running workers may show no sign of life: no container has"
                " written a line of output, the status of no pod has changed, and the program has"
                " reported no advance. Then all running"
                f" workers are recreated with reason {Cause.NO_PROGRESS.value}, which counts as"
                " one failure. The job fails instead past backoffLimit, if restartPolicy is Never,"
                " or if a worker has already succeeded. Fewer than minReplicas workers wait for"
                " the others and are left alone. Nothing is ended as long as the output of any"
                " running pod cannot be read. If it is not set, there is no such deadline."
            ),
        ),
    ] = None
    backoff_limit: Annotated[
        NonNegative | None,
        Meta(
            description=(
                "Number of times that failed pods are recreated, and containers restarted in"
                f" their pods, before the job fails with reason {_JOB_FAILED}. Evicted and deleted"
                " pods do not count. If it is not set, there is no limit."
            ),
        ),
    ] = None
    clean_pod_policy: Annotated[
        CleanPodPolicy,
        Meta(
            description=(
                "Which pods are deleted, with their Services, when the job finishes. None"
                " (default): no pods. Running: the pods that still run. All: all pods."
            ),
        ),
    ] = "None"
    scheduling_policy: Annotated[
        SchedulingPolicy,
        Meta(description="Policy for scheduling the pods."),
    ] = SchedulingPolicy()

    @property
    def workers(self) -> ReplicaSpec:
        """The replicas that train; the schema requires them."""
        return self.replica_specs[WORKER]

    @property
    def smallest(self) -> int:
        """The minimum number of workers."""
        return self.workers.replicas if self.min_replicas is None else self.min_replicas

    @property
    def largest(self) -> int:
        """The maximum number of workers."""
        if self.max_replicas is not None:
            return self.max_replicas
        return max(self.workers.replicas, self.smallest)

    @property
    def backend(self) -> str:
        """The rendezvous backend, with its default."""
        return self.rdzv_backend or (C10D if self.rdzv_endpoint is None else ETCD)

    @property
    def hosted(self) -> bool:
        """Whether the first worker serves the rendezvous."""
        return self.rdzv_endpoint is None


def decode(spec: dict[str, Any]) -> ElasticJobSpec:
    """Decode a stored ``spec``; templates are completed.

    Raises:
        msgspec.ValidationError: A field is missing or has the wrong type; the message has its path.
    """
    decoded = msgspec.convert(spec, ElasticJobSpec)
    replicas = {
        name: structs.replace(each, template=completed(each.template, CONTAINER))
        for name, each in decoded.replica_specs.items()
    }
    return structs.replace(decoded, replica_specs=replicas)


def with_limits(spec: ElasticJobSpec, low: int, high: int) -> ElasticJobSpec:
    """Return the spec with both limits, also where the user has written none.

    The limits are arguments of the first workers, and workers that join later must have the same.
    So a limit that is not written is what the replicas were when the first workers were created.

    Args:
        spec: The spec.
        low: The minimum that workers were created with; 0 if there are none yet.
        high: Their maximum, likewise.
    """
    if WORKER not in spec.replica_specs or spec.workers.replicas == 0:
        return spec
    smallest = spec.min_replicas or low or spec.smallest
    largest = spec.max_replicas or high or max(spec.workers.replicas, smallest)
    return structs.replace(spec, min_replicas=smallest, max_replicas=largest)


def main_container(template: dict[str, Any]) -> int:
    """Return the index of the container of a template that the launcher runs in."""
    containers = template.get("spec", {}).get("containers", [])
    return podtemplate.main_container((each.get("name", "") for each in containers), (CONTAINER,))
