"""ElasticJob: the kind as users write it, and its defaults.

An ElasticJob is a number of equal workers, each a pod in which an elastic launcher (torchrun) runs.
They find each other at a rendezvous, and go on training when some of them come or go: anything
between ``minReplicas`` and ``maxReplicas`` will do.

As for every kind, what a schema or CEL can say is refused when the object is created
(`traincrew.api.elasticjob_definition`); what only code can know is found by
`traincrew.api.elasticjob_rules`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from traincrew.api.kind import Rule, rules
from traincrew.api.runpolicy import CleanPodPolicy, CommonPolicy, NonNegative, Positive, Seconds

GROUP = "elastic.pytorch.org"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "ElasticJob"
PLURAL = "elasticjobs"

WORKER = "Worker"
"""The replicas that train. Others get pods and Services too, but decide nothing."""
CONTAINER = "elasticjob-worker"
"""The container the launcher runs in, if one is named so; else it is the first one."""
C10D = "c10d"
ETCD = "etcd"

MAX_REPLICAS = 5000
"""Of one type; a rendezvous of that size, and one status that counts them, are still possible."""
MAX_TYPES = 8
MAX_NAME_AND_TYPE = 57
"""``<name>-<type>-<index>`` is a host name, at most 63 characters with an index of four."""

JOB_NAME = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
TYPE_NAME = "^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$"

RestartPolicy = Literal["Always", "OnFailure", "Never", "ExitCode"]


class SchedulingPolicy(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """How the pods of a job are brought onto nodes."""

    min_available: Annotated[
        NonNegative | None,
        Meta(description="Accepted for old manifests; pods are scheduled one by one."),
    ] = None


class FitAvailable(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """How a job makes do with the room there is."""

    after_seconds: Annotated[
        Positive,
        Meta(
            description=(
                "A worker is given up when the scheduler has found no room for it for so long."
                " Default 60."
            ),
        ),
    ] = 60
    retry_seconds: Annotated[
        Positive,
        Meta(
            description=(
                "So long after the last one was given up, one of them is asked for again; when it"
                " finds room, the next one is at once. Default 300."
            ),
        ),
    ] = 300


class ReplicaSpec(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """Equal pods of one type."""

    template: Annotated[
        dict[str, Any],
        Meta(
            description=(
                "Pod template. The launcher's arguments are put before the args of the container"
                f" named {CONTAINER}, else of the first one; its command, or the image's"
                " entrypoint, has to be the launcher."
            ),
            extra_json_schema={"x-pod-template": {"container": CONTAINER}},
        ),
    ]
    replicas: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_REPLICAS,
            description=(
                "Number of pods. May be changed while the job runs, also with `kubectl scale`:"
                " the highest indices come last and go first."
            ),
        ),
    ] = 1
    restart_policy: Annotated[
        RestartPolicy | None,
        Meta(
            description=(
                "ExitCode: a pod that ended with 130, 137, 138 or 143, or was evicted, is made"
                " again; any other exit code but 0 is final. OnFailure, Always: containers are"
                " restarted in their pod. Never: the first failure is the job's. Replaces the"
                " template's; default: that one, else Never."
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
                f"The pods by type. Those of {WORKER} train and decide how the job ends; other"
                " types get pods and Services in the same way."
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
        Annotated[str, Meta(min_length=1, max_length=1024)] | None,
        Meta(
            description=(
                "host:port of the rendezvous, such as that of an etcd with its v2 API. Left out,"
                " the first worker serves one (c10d) and nothing has to be set up."
            ),
        ),
    ] = None
    rdzv_backend: Annotated[
        Annotated[str, Meta(pattern="^[A-Za-z0-9][-A-Za-z0-9_.]*$", max_length=63)] | None,
        Meta(
            description=(
                "Kind of the rendezvous, for --rdzv_backend: etcd (default with rdzvEndpoint),"
                " etcd-v2, c10d (default without) or one that the launcher has been taught."
            ),
        ),
    ] = None
    rdzv_id: Annotated[
        Annotated[str, Meta(min_length=1, max_length=253)] | None,
        Meta(
            description=(
                "Name of this run at the rendezvous, for --rdzv_id. Default: the job's name; where"
                " the first worker serves the rendezvous, with a part of the job's UID."
            ),
        ),
    ] = None
    min_replicas: Annotated[
        Positive | None,
        Meta(description="Training goes on with as few workers. Default: replicas of Worker."),
    ] = None
    max_replicas: Annotated[
        Positive | None,
        Meta(description="Training can use as many workers. Default: replicas of Worker."),
    ] = None
    fit_available: Annotated[
        FitAvailable | None,
        Meta(
            description=(
                "Make do with the room there is: workers that cannot be scheduled are given up,"
                " down to minReplicas, and asked for again later. Pods that run are never given up,"
                " nor is the first worker if it serves the rendezvous. Default: wait for all. {} is"
                " enough."
            ),
        ),
    ] = None
    active_deadline_seconds: Annotated[
        Seconds | None,
        Meta(
            description=(
                "Fail the job with reason JobFailed when it has been active this long. Counts from"
                " status.startTime; suspended time is not counted."
            ),
        ),
    ] = None
    backoff_limit: Annotated[
        NonNegative | None,
        Meta(
            description=(
                "How often pods that failed are made again, and containers restarted in their"
                " pods, before the job fails with reason JobFailed. Evicted and deleted pods do"
                " not count. Default: no limit."
            ),
        ),
    ] = None
    clean_pod_policy: Annotated[
        CleanPodPolicy,
        Meta(
            description=(
                "Which pods go, with their Services, when the job has finished. None: no pod."
                " Running: those still running. All: every pod."
            ),
        ),
    ] = "None"
    scheduling_policy: Annotated[
        SchedulingPolicy,
        Meta(description="How the pods are brought onto nodes."),
    ] = SchedulingPolicy()

    @property
    def workers(self) -> ReplicaSpec:
        """The replicas that train; the schema requires them."""
        return self.replica_specs[WORKER]

    @property
    def smallest(self) -> int:
        """With how many workers training goes on."""
        return self.workers.replicas if self.min_replicas is None else self.min_replicas

    @property
    def largest(self) -> int:
        """How many workers training can use."""
        if self.max_replicas is not None:
            return self.max_replicas
        return max(self.workers.replicas, self.smallest)

    @property
    def backend(self) -> str:
        """Kind of the rendezvous."""
        return self.rdzv_backend or (C10D if self.rdzv_endpoint is None else ETCD)

    @property
    def hosted(self) -> bool:
        """Whether the first worker serves the rendezvous."""
        return self.rdzv_endpoint is None


def decode(spec: dict[str, Any]) -> ElasticJobSpec:
    """Read a stored ``spec``.

    Raises:
        msgspec.ValidationError: A field is missing or has the wrong type; the message has its path.
    """
    return msgspec.convert(spec, ElasticJobSpec)


def computed_defaults(spec: ElasticJobSpec) -> dict[str, Any]:
    """What users read back in ``spec`` although they did not write it, as a merge patch.

    The limits are arguments of the first workers, so those that join later have to have the same.
    """
    patch: dict[str, Any] = {}
    if spec.workers.replicas > 0:
        if spec.min_replicas is None:
            patch["minReplicas"] = spec.smallest
        if spec.max_replicas is None:
            patch["maxReplicas"] = spec.largest
    return {"spec": patch} if patch else {}


def main_container(template: dict[str, Any]) -> int:
    """Which of a template's containers the launcher runs in, by its place."""
    containers = template.get("spec", {}).get("containers", [])
    for place, container in enumerate(containers):
        if container.get("name") == CONTAINER:
            return place
    return 0
