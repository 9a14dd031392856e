"""MxJob: the kind as users write it, and its defaults.

An MxJob trains with MXNet: ``local`` in one pod, or ``dist`` with a parameter server, where a
scheduler, servers and workers find each other by five environment variables (``DMLC_*``).

As for every kind, rules that a schema or CEL can express are enforced when the object is created
(`traincrew.api.kinds.mxjob.definition`); what only code can check is found by
`traincrew.api.kinds.mxjob.rules`.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field, structs

from traincrew.api.kind import Rule, rules
from traincrew.api.podtemplate import completed, has_container
from traincrew.api.reasons import Cause, Reasons
from traincrew.api.runpolicy import NonNegative, RunPolicy

GROUP = "mxnet.mlkube.io"
OLDER_GROUP = "mlkube.io"
VERSION = "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "MxJob"
PLURAL = "mxjobs"

CONTAINER = "mxnet"
"""The container that trains."""
SCHEDULER: Final = "SCHEDULER"
SERVER: Final = "SERVER"
WORKER: Final = "WORKER"
TYPES = (SCHEDULER, SERVER, WORKER)
RESTART_POLICIES = ("Never", "OnFailure")
"""Those of templates."""
LOCAL = "local"
DIST = "dist"
DEFAULT_PORT = 9091
"""Port of the scheduler, upstream's default."""
DEFAULT_BACKOFF_LIMIT = 6
"""Number of restarts after failures, as for a Job."""

MAX_REPLICAS = 5000
"""Maximum per type: each has a Job of its own, and an entry in the status of its type."""
MAX_ID = 16
MAX_NAME_AND_ID = 50
"""``<name>-scheduler-<RuntimeId>-0`` names a Service, so it has at most 63 characters."""
GENERATED_ID = 4
"""Length of a generated RuntimeId."""

RUNTIME_ID = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

ReplicaType = Literal["SCHEDULER", "SERVER", "WORKER"]
JobMode = Literal["local", "dist"]
Port = Annotated[int, Meta(ge=1, le=65535)]
AnyObject = Annotated[
    dict[str, Any],
    Meta(
        description="Anything.",
        extra_json_schema={"x-kubernetes-preserve-unknown-fields": True},
    ),
]
RuntimeId = Annotated[str, Meta(pattern=RUNTIME_ID, max_length=MAX_ID)]


REASONS = Reasons({Cause.PROGRAM: "ReplicaFailed"})


class MxRunPolicy(RunPolicy, kw_only=True, frozen=True):
    """The run policy of an MxJob."""

    backoff_limit: Annotated[
        NonNegative | None,
        Meta(
            description=(
                "Number of restarts of all replicas, after one of them failed with an exit code of"
                " 128 or more (killed by a signal), before the job fails with reason"
                f" {Cause.BACKOFF_LIMIT.value}. The loss of a node and"
                f" evictions do not count. Defaults to {DEFAULT_BACKOFF_LIMIT}."
            )
        ),
    ] = None


class ReplicaSpec(Struct, kw_only=True, omit_defaults=True, frozen=True):
    """The replicas of one type."""

    template: Annotated[
        dict[str, Any],
        Meta(
            description=(
                "Template of the pods. It must have a container named mxnet; a single container"
                " without a name gets this name. Containers are not restarted in their pods,"
                " because a parameter server does not take them back: restartPolicy, Never"
                " (default) or OnFailure, is Never in the pods, and runPolicy.backoffLimit"
                " restarts all replicas together. A change takes effect with the next restart."
            ),
            extra_json_schema={"x-pod-template": {}},
        ),
    ]
    replicas: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_REPLICAS,
            description=(
                "Number of replicas, each a Job with one pod. Defaults to 1. A SCHEDULER has"
                " exactly one. It cannot be changed, because a parameter server cannot be resized."
            ),
        ),
    ] = 1
    mx_replica_type: Annotated[
        ReplicaType,
        Meta(description="Role of the replicas: SCHEDULER, SERVER or WORKER (default)."),
    ] = field(default=WORKER, name="mxReplicaType")
    ps_root_port: Annotated[
        Port | None,
        Meta(
            description=f"Port of the scheduler. Defaults to {DEFAULT_PORT}. Other types ignore it."
        ),
    ] = field(default=None, name="PsRootPort")
    ps_root_port_alias: Annotated[Port | None, Meta(description="The same as PsRootPort.")] = field(
        default=None, name="psRootPort"
    )

    @property
    def port(self) -> int:
        """The port of a scheduler, with its default."""
        return self.ps_root_port or self.ps_root_port_alias or DEFAULT_PORT


# The schema has no defaults in lists: one that nobody wrote would make the stored list differ from
# the manifest's for good, in comparisons and in server-side apply.


def type_of(entry: str) -> str:
    """Return the CEL expression of the type of an entry of ``replicaSpecs``."""
    return f"(has({entry}.mxReplicaType) ? {entry}.mxReplicaType : '{WORKER}')"


def replicas_of(entry: str) -> str:
    """Return the CEL expression of the number of replicas of an entry."""
    return f"(has({entry}.replicas) ? {entry}.replicas : 1)"


def port_of(entry: str) -> str:
    """Return the CEL expression of the port of a scheduler, in either spelling."""
    return (
        f"(has({entry}.PsRootPort) ? {entry}.PsRootPort :"
        f" has({entry}.psRootPort) ? {entry}.psRootPort : {DEFAULT_PORT})"
    )


_REPLICA_RULES = rules(
    Rule(
        rule=has_container("self.template", CONTAINER),
        message=(
            f"template.spec.containers must have a container named '{CONTAINER}': rename the one"
            " that trains"
        ),
    ),
    Rule(
        rule=(
            "!has(self.template.spec.restartPolicy) || self.template.spec.restartPolicy in"
            f" {list(RESTART_POLICIES)}"
        ),
        message=(
            "template.spec.restartPolicy must be Never or OnFailure, because replicas come to an"
            " end"
        ),
    ),
    Rule(
        rule=f"{type_of('self')} != '{SCHEDULER}' || {replicas_of('self')} == 1",
        message=f"replicas of the {SCHEDULER} must be 1",
    ),
    Rule(
        rule=(
            "!has(self.PsRootPort) || !has(self.psRootPort) || self.PsRootPort == self.psRootPort"
        ),
        message="PsRootPort and psRootPort are the same field: write only PsRootPort",
    ),
)


class MxJobSpec(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """``spec`` of an MxJob."""

    job_mode: Annotated[
        JobMode | None,
        Meta(
            description=(
                "Required. local: one WORKER trains alone. dist: one SCHEDULER, and any number of"
                " SERVER and WORKER replicas."
            )
        ),
    ] = None
    replica_specs: Annotated[
        list[Annotated[ReplicaSpec, Meta(extra_json_schema=_REPLICA_RULES)]],
        Meta(
            max_length=len(TYPES),
            description="Required. The replicas, one entry for each type.",
            extra_json_schema=rules(
                Rule(
                    rule=f"self.all(r, self.exists_one(o, {type_of('o')} == {type_of('r')}))",
                    message="each mxReplicaType may occur only once: use replicas for the number",
                ),
            ),
        ),
    ] = field(default_factory=list)
    runtime_id: Annotated[
        RuntimeId | None,
        Meta(
            description=(
                "Part of the names of all children, <name>-<type>-<RuntimeId>-<index>. It cannot"
                " be changed. If it is not set, the operator generates one and writes it here once;"
                " status.runtimeId is the one in use."
            )
        ),
    ] = field(default=None, name="RuntimeId")
    runtime_id_alias: Annotated[RuntimeId | None, Meta(description="The same as RuntimeId.")] = (
        field(default=None, name="runtimeId")
    )
    recover_workers: Annotated[
        bool,
        Meta(
            description=(
                "Whether a worker that is killed is recreated alone while the others go on; by"
                " default all replicas are restarted. Only for programs with a dist_async store:"
                " with dist_sync all workers must make equally many steps, and the others wait"
                " forever for those of the lost one. MXNet's scheduler takes back one worker in"
                " its life, so the next failure restarts all replicas, as does one of two workers"
                " together. It must notice the loss first: the worker is recreated"
                " PS_HEARTBEAT_TIMEOUT seconds later (5, unless the scheduler's template has"
                " another value; 0: all are restarted). Used only if jobMode is dist."
            )
        ),
    ] = False
    run_policy: Annotated[
        MxRunPolicy, Meta(description="Policies for suspending, retrying and cleaning up the job.")
    ] = MxRunPolicy()
    replica_specs_misspelt: Annotated[
        list[AnyObject] | None, Meta(description="Not a field: write replicaSpecs.")
    ] = field(default=None, name="replica_specs")

    @property
    def identifier(self) -> str | None:
        """The RuntimeId, in either spelling."""
        return self.runtime_id or self.runtime_id_alias

    @property
    def distributed(self) -> bool:
        """Whether the job has a parameter server."""
        return self.job_mode == DIST

    def replicas_of(self, kind: str) -> int:
        """Return the number of replicas of a type."""
        return sum(each.replicas for each in self.replica_specs if each.mx_replica_type == kind)

    @property
    def port(self) -> int:
        """The scheduler's port."""
        ports = (each.port for each in self.replica_specs if each.mx_replica_type == SCHEDULER)
        return next(ports, DEFAULT_PORT)


def decode(spec: dict[str, Any]) -> MxJobSpec:
    """Decode a stored ``spec``; templates are completed.

    Raises:
        msgspec.ValidationError: A field is missing or has the wrong type; the message has its path.
    """
    decoded = msgspec.convert(spec, MxJobSpec)
    replicas = [
        structs.replace(each, template=completed(each.template, CONTAINER))
        for each in decoded.replica_specs
    ]
    return structs.replace(decoded, replica_specs=replicas)


def generated_id(uid: str) -> str:
    """Return the RuntimeId of a job that has none: the same for the same object."""
    number = int.from_bytes(sha256(uid.encode()).digest()[:8])
    text = ""
    for _ in range(GENERATED_ID):
        number, digit = divmod(number, len(_DIGITS))
        text += _DIGITS[digit]
    return text
