"""JobSet: the kind of sigs.k8s.io/jobset, and its defaults.

A JobSet is a number of Jobs that start, fail and restart as one. Fields, defaults and checks are
those of JobSet 0.12.0: docs/design/jobset.md has its sources. Its webhook writes the defaults into
``spec``; here they are decided by the plan, so the properties of these types have them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, structs

from traincrew.api.kind import Rule, rules
from traincrew.api.kinds.jobset.claims import (
    MAX_POLICIES,
    POLICIES,
    ClaimTemplate,
    Policy,
)
from traincrew.api.kinds.jobset.jobtemplate import JOB_TEMPLATE
from traincrew.api.kinds.jobset.policies import (
    FAILED_JOBS,
    MAX_LABEL,
    MAX_REPLICATED_JOBS,
    MAX_RESTARTS_REACHED,
    FailurePolicy,
    Name,
    StartupPolicy,
    SuccessPolicy,
)
from traincrew.api.podtemplate import completed
from traincrew.api.reasons import Cause, Reasons
from traincrew.api.runpolicy import INT32_MAX, CommonPolicy, NonNegative

GROUP = "jobset.x-k8s.io"
VERSION = "v1alpha2"
KIND = "JobSet"
PLURAL = "jobsets"

MANAGER = "jobset.sigs.k8s.io/jobset-controller"
"""Value of ``spec.managedBy`` of JobSets that are not managed elsewhere."""
CONTAINER = "main"
"""The name of a single unnamed container."""
INDEXED = "Indexed"
DEFAULT_GROUP = "default"
MAX_REPLICAS = 5000
"""Maximum per replicated job: the size of the status still works with this many."""
MAX_RESTARTED = 1024
"""Maximum number of Jobs that are counted one by one: ``maxReplicasPerReplicatedJob``."""
MAX_PODS = 2**31 - 1
"""Maximum for each replicated job: a count of 32 bits."""
LABEL = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""A name that begins a host name: a label of RFC 1035."""
MANAGED_BY = (
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
    r"/[A-Za-z0-9/_.~%!$&'()*+,;=:@-]+$"
)
"""A path with a domain before it, as of an operator."""
IMMUTABLE = rules(Rule(rule="self == oldSelf", message="Value is immutable"))
REASONS = Reasons(
    {
        Cause.PROGRAM: FAILED_JOBS,
        Cause.BACKOFF_LIMIT: MAX_RESTARTS_REACHED,
        Cause.REFUSED: "{kind}CreationFailed",
    }
)
"""The reasons of JobSet."""

Status = Literal["Ready", "Complete"]
_BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


class DependsOn(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """Another replicated job that has to come first."""

    name: Annotated[Name, Meta(description="Name of an earlier replicated job.")]
    status: Annotated[
        Status,
        Meta(
            description=(
                "Ready: all its Jobs are ready, or have ended. Complete: all its Jobs have"
                " succeeded."
            )
        ),
    ]


TEMPLATE = (
    "Template of the Jobs, as in batch/v1. completionMode defaults to Indexed, and restartPolicy of"
    " the pods to OnFailure; suspend is that of the JobSet."
)


class ReplicatedJob(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """Identical Jobs."""

    name: Annotated[
        str,
        Meta(
            max_length=MAX_LABEL,
            pattern="^[-a-z0-9]+$",
            description="Part of the names of its Jobs: <jobset>-<name>-<index>.",
        ),
    ]
    template: Annotated[dict[str, Any], Meta(description=TEMPLATE, extra_json_schema=JOB_TEMPLATE)]
    group_name: Annotated[
        Annotated[str, Meta(max_length=MAX_LABEL, pattern=LABEL)] | None,
        Meta(description=f"Group that it belongs to. Defaults to {DEFAULT_GROUP}."),
    ] = None
    replicas: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_REPLICAS)] | None,
        Meta(description="Number of Jobs. Defaults to 1."),
    ] = None
    depends_on: Annotated[
        Annotated[list[DependsOn], Meta(max_length=5)] | None,
        Meta(
            description=(
                "Replicated jobs that must have reached a state before these Jobs are created. The"
                " first one in the list cannot have it."
            ),
            extra_json_schema=_BY_NAME | IMMUTABLE,
        ),
    ] = None

    @property
    def group(self) -> str:
        """The name of its group, with its default."""
        return self.group_name or DEFAULT_GROUP

    @property
    def count(self) -> int:
        """The number of Jobs, with its default."""
        return 1 if self.replicas is None else self.replicas

    @property
    def job(self) -> dict[str, Any]:
        """``spec`` of its Jobs."""
        spec: dict[str, Any] = self.template["spec"]
        return spec

    @property
    def pods_at_once(self) -> int:
        """The number of pods of one Job that run at the same time."""
        parallelism, completions = self.job.get("parallelism"), self.job.get("completions")
        at_once = 1 if parallelism is None else int(parallelism)
        return at_once if completions is None else min(at_once, int(completions))

    @property
    def is_indexed(self) -> bool:
        """Whether the pods of a Job have indexes."""
        return (self.job.get("completionMode") or INDEXED) == INDEXED

    @property
    def pod(self) -> dict[str, Any]:
        """``spec`` of its pods."""
        spec: dict[str, Any] = self.job["template"]["spec"]
        return spec

    def mounts(self, volume: str) -> bool:
        """Return whether a container mounts a volume of this name."""
        containers = [*(self.pod.get("containers") or ()), *(self.pod.get("initContainers") or ())]
        mounts = [mount for each in containers for mount in each.get("volumeMounts") or ()]
        return any(mount.get("name") == volume for mount in mounts)


class Network(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """How pods find each other."""

    enable_dns_hostnames: Annotated[
        bool | None,
        Meta(
            description=(
                "Whether pods are reached by <jobset>-<replicated job>-<job index>-<pod index>"
                ".<subdomain>, by a headless Service. Defaults to true."
            )
        ),
    ] = msgspec.field(default=None, name="enableDNSHostnames")
    subdomain: Annotated[
        Annotated[str, Meta(max_length=MAX_LABEL, pattern=f"{LABEL}|^$")] | None,
        Meta(description="Name of the Service. Defaults to that of the JobSet."),
    ] = None
    publish_not_ready_addresses: Annotated[
        bool | None,
        Meta(description="Whether the names of pods resolve before they are ready. Default: true."),
    ] = None


class Coordinator(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """The pod whose address is a label and an annotation of all Jobs and pods."""

    replicated_job: Annotated[Name, Meta(description="Its replicated job.")]
    job_index: Annotated[NonNegative | None, Meta(description="Index of its Job. Default: 0.")] = (
        None
    )
    pod_index: Annotated[NonNegative | None, Meta(description="Its index. Default: 0.")] = None


class JobSetSpec(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """``spec`` of a JobSet."""

    replicated_jobs: Annotated[
        list[ReplicatedJob],
        Meta(
            max_length=MAX_REPLICATED_JOBS,
            description=(
                "The Jobs of the set. While the JobSet is not suspended they cannot be changed;"
                " while it is, labels, annotations, nodeSelector, tolerations and schedulingGates"
                " of the pods can be."
            ),
            extra_json_schema=_BY_NAME,
        ),
    ] = msgspec.field(default_factory=list)
    network: Annotated[
        Network | None,
        Meta(description="How pods find each other.", extra_json_schema=IMMUTABLE),
    ] = None
    success_policy: Annotated[
        SuccessPolicy | None,
        Meta(
            description="When the JobSet has succeeded. Defaults to: when all Jobs have.",
            extra_json_schema=IMMUTABLE,
        ),
    ] = None
    failure_policy: Annotated[
        FailurePolicy | None,
        Meta(
            description=(
                "What is done about Jobs that failed. Without it, the JobSet fails with the first"
                f" one, with reason {FAILED_JOBS}."
            ),
            extra_json_schema=IMMUTABLE,
        ),
    ] = None
    startup_policy: Annotated[
        StartupPolicy | None,
        Meta(
            description="In which order Jobs are started. Deprecated: write dependsOn.",
            extra_json_schema=IMMUTABLE,
        ),
    ] = None
    suspend: Annotated[
        bool | None,
        Meta(description="Whether all Jobs are suspended, so that they have no pods."),
    ] = None
    coordinator: Annotated[
        Coordinator | None,
        Meta(
            description=(
                "The pod whose address all Jobs and pods have as a label and an annotation,"
                " jobset.sigs.k8s.io/coordinator."
            )
        ),
    ] = None
    managed_by: Annotated[
        Annotated[str, Meta(max_length=63, pattern=MANAGED_BY)] | None,
        Meta(
            description=(
                f"Who manages the JobSet. {MANAGER} (default): the operator of this cluster."
                " Anything else: it is left alone here. It cannot be changed."
            )
        ),
    ] = None
    ttl_seconds_after_finished: Annotated[
        Annotated[int, Meta(ge=0, le=INT32_MAX)] | None,
        Meta(
            description=(
                "Number of seconds after which a finished JobSet is deleted, with everything it"
                " owns. If it is not set, it is not deleted."
            )
        ),
    ] = None
    volume_claim_policies: Annotated[
        Annotated[list[Policy], Meta(max_length=MAX_POLICIES)] | None,
        Meta(
            description="Claims of volumes that the pods of all Jobs share.",
            extra_json_schema=POLICIES,
        ),
    ] = None

    @property
    def claims(self) -> list[ClaimTemplate]:
        """The templates of all claims."""
        policies = self.volume_claim_policies or ()
        return [each for policy in policies for each in policy.templates or ()]

    @property
    def run_policy(self) -> CommonPolicy:
        """The parts of the policies of all kinds that a JobSet has."""
        return CommonPolicy(
            suspend=bool(self.suspend),
            ttl_seconds_after_finished=self.ttl_seconds_after_finished,
        )

    @property
    def has_host_names(self) -> bool:
        """Whether pods are reached by their names."""
        return self.network is None or self.network.enable_dns_hostnames is not False

    def subdomain(self, name: str) -> str:
        """Return the name of the Service of a JobSet of this name."""
        return (self.network is not None and self.network.subdomain) or name

    @property
    def in_order(self) -> bool:
        """Whether replicated jobs are started one after the other."""
        policy = self.startup_policy
        return policy is not None and policy.startup_policy_order == "InOrder"

    @property
    def success(self) -> SuccessPolicy:
        """The success policy, with its default."""
        return self.success_policy or SuccessPolicy(operator="All")

    @property
    def restarts_single_jobs(self) -> bool:
        """Whether restarts of single Jobs are possible."""
        return self.failure_policy is not None and self.failure_policy.restarts_single_jobs

    @property
    def total(self) -> int:
        """The number of all Jobs."""
        return sum(each.count for each in self.replicated_jobs)

    def named(self, name: str) -> ReplicatedJob | None:
        """Return the replicated job of a name."""
        return next((each for each in self.replicated_jobs if each.name == name), None)


def decode(spec: dict[str, Any]) -> JobSetSpec:
    """Decode a stored ``spec``; templates are completed.

    Raises:
        msgspec.ValidationError: A field is missing or has the wrong type; the message has its path.
    """
    decoded = msgspec.convert(spec, JobSetSpec)
    completed_jobs = [
        structs.replace(each, template=_completed(each.template, index))
        for index, each in enumerate(decoded.replicated_jobs)
    ]
    return structs.replace(decoded, replicated_jobs=completed_jobs)


def _completed(template: dict[str, Any], index: int) -> dict[str, Any]:
    job = template.get("spec")
    pod = job.get("template") if isinstance(job, dict) else None
    if not isinstance(pod, dict) or not isinstance(pod.get("spec"), dict):
        path = f"$.replicatedJobs[{index}].template.spec.template.spec"
        raise msgspec.ValidationError(f"Expected `object` - at `{path}`")
    return {**template, "spec": {**template["spec"], "template": completed(pod, CONTAINER)}}
