"""MxJob: its definition; rules over several fields, printer columns, status."""

from __future__ import annotations

from traincrew.api.kind import (
    AGE,
    COUNT,
    JOB_NAME,
    PROGRESS,
    Column,
    Kind,
    Rule,
    StatusWords,
    rules,
)
from traincrew.api.kinds.mxjob.rules import (
    DIST_NEEDS,
    EVERY_MODE_NEEDS,
    LOCAL_NEEDS,
    MODES,
    WRONG_NAME,
)
from traincrew.api.kinds.mxjob.types import (
    CONTAINER,
    DEFAULT_PORT,
    DIST,
    GENERATED_ID,
    GROUP,
    KIND,
    LOCAL,
    MAX_NAME_AND_ID,
    OLDER_GROUP,
    PLURAL,
    REASONS,
    SCHEDULER,
    TYPES,
    VERSION,
    WORKER,
    MxJobSpec,
    port_of,
    replicas_of,
    type_of,
)

# Missing fields are found by rules, too: the API server would check no rule beside a field that the
# schema requires, and so would not say of which fields others are misspellings.
_REPLICAS = "self.replicaSpecs"
_HAS_REPLICAS = f"has({_REPLICAS}) && size({_REPLICAS}) > 0"
_HAS_EVERY_TYPE = " && ".join(
    f"{_REPLICAS}.exists(r, {type_of('r')} == '{each}')" for each in TYPES
)
_NOT_LOCAL = f"!has(self.jobMode) || self.jobMode != '{LOCAL}' || !({_HAS_REPLICAS})"
_NOT_DIST = f"!has(self.jobMode) || self.jobMode != '{DIST}' || !({_HAS_REPLICAS})"
_ID_LENGTH = (
    "(has(self.spec.RuntimeId) ? size(self.spec.RuntimeId) : has(self.spec.runtimeId) ?"
    f" size(self.spec.runtimeId) : {GENERATED_ID})"
)


def _id(of: str) -> str:
    """Return the expression of a job's RuntimeId in either spelling; empty if there is none."""
    return (
        f"(has({of}.spec.RuntimeId) ? {of}.spec.RuntimeId :"
        f" has({of}.spec.runtimeId) ? {of}.spec.runtimeId : '')"
    )


_ID_IN_USE = "has(oldSelf.status) && has(oldSelf.status.runtimeId)"
SPEC_RULES = rules(
    Rule(
        rule="!has(self.replica_specs)",
        message="replica_specs is not a field: write replicaSpecs",
    ),
    Rule(
        rule=f"has(self.replica_specs) || ({_HAS_REPLICAS})",
        message=f"replicaSpecs is required: {EVERY_MODE_NEEDS}",
    ),
    Rule(
        rule="has(self.jobMode)",
        message=f"jobMode is required: {MODES}",
    ),
    Rule(
        rule=f"{_NOT_LOCAL} || ({_REPLICAS}.size() == 1 &&"
        f" {type_of(f'{_REPLICAS}[0]')} == '{WORKER}' &&"
        f" {replicas_of(f'{_REPLICAS}[0]')} == 1)",
        message=f"{LOCAL_NEEDS}; for more, write jobMode: dist",
    ),
    Rule(
        rule=f"{_NOT_DIST} || ({_HAS_EVERY_TYPE})",
        message=DIST_NEEDS,
    ),
    Rule(
        rule="!has(self.RuntimeId) || !has(self.runtimeId) || self.RuntimeId == self.runtimeId",
        message="RuntimeId and runtimeId are the same field: write only RuntimeId",
    ),
    Rule(
        rule="!has(self.jobMode) || !has(oldSelf.jobMode) || self.jobMode == oldSelf.jobMode",
        message="jobMode cannot be changed: delete the job and create it again",
    ),
    Rule(
        rule=f"!has(oldSelf.replicaSpecs) || !({_HAS_REPLICAS}) || ("
        "size(oldSelf.replicaSpecs) == size(self.replicaSpecs) &&"
        f" {_REPLICAS}.all(r, oldSelf.replicaSpecs.exists(o,"
        f" {type_of('o')} == {type_of('r')} && {replicas_of('o')} == {replicas_of('r')})))",
        message=(
            "replicaSpecs: the types and numbers of replicas cannot be changed, because a"
            " parameter server cannot be resized: delete the job and create it again"
        ),
    ),
    Rule(
        rule=f"!has(oldSelf.replicaSpecs) || !({_HAS_REPLICAS}) ||"
        f" {_REPLICAS}.all(r, {type_of('r')} != '{SCHEDULER}' ||"
        f" oldSelf.replicaSpecs.all(o, {type_of('o')} != '{SCHEDULER}' ||"
        f" {port_of('o')} == {port_of('r')}))",
        message=(
            f"PsRootPort of the {SCHEDULER} ({DEFAULT_PORT} if it is not set) cannot be changed:"
            " delete the job and create it again"
        ),
    ),
)
"""Rules over ``spec``."""
JOB_RULES = rules(
    Rule(
        rule=f"self.metadata.name.matches('{JOB_NAME}')",
        message=f"metadata.name: {WRONG_NAME}",
    ),
    Rule(
        rule=f"size(self.metadata.name) + {_ID_LENGTH} <= {MAX_NAME_AND_ID}",
        message=(
            f"metadata.name and spec.RuntimeId ({GENERATED_ID} characters if generated) together"
            f" must have at most {MAX_NAME_AND_ID} characters, because the scheduler is named"
            " <name>-scheduler-<RuntimeId>-0"
        ),
    ),
    # It may be removed, as by replacing a job with its manifest: the status keeps it.
    Rule(
        rule=f"{_id('self')} == '' || {_id('self')} == {_id('oldSelf')} || ({_ID_IN_USE} ?"
        f" {_id('self')} == oldSelf.status.runtimeId : {_id('oldSelf')} == '')",
        message="spec.RuntimeId cannot be changed: delete the job and create it again",
    ),
)
"""Rules over the whole object."""

_TEXT = {"type": "string"}
STATUS = StatusWords(
    start_time="Time at which the job was accepted, or resumed.",
    replicas="",
    numbers={},
    fields={
        "phase": {
            **_TEXT,
            "description": (
                "Phase of the job: Creating until all pods run, Running, Done when the job has"
                " ended (see state), Failed if it could not be set up; or Suspended."
            ),
        },
        "state": {
            **_TEXT,
            "description": "How the job has ended: Succeeded or Failed. It is not set before.",
        },
        "reason": {**_TEXT, "description": "Why the job failed: which replica, and how it ended."},
        "controlPaused": {"type": "boolean", "description": "Always false."},
        "attempt": {
            **COUNT,
            "description": (
                "Number of times that all replicas were restarted together, for any reason."
            ),
        },
        "failures": {
            **COUNT,
            "description": (
                "Number of restarts that count against runPolicy.backoffLimit: those after a"
                " failure, but not after the loss of a node or an eviction."
            ),
        },
        "recoveries": {
            "type": "object",
            "description": (
                "Number of times that workers were recreated alone in this attempt, by index."
            ),
            "additionalProperties": COUNT,
        },
        "recreateAfter": {
            **_TEXT,
            "format": "date-time",
            "description": (
                "Time before which no replica is recreated: the back-off after repeated failures;"
                " for a worker alone, until the scheduler has noticed its loss and takes it back."
            ),
        },
        "restarts": {
            **COUNT,
            "description": "Number of restarts of all replicas, and of single workers.",
        },
        "lastRestartTime": {
            **_TEXT,
            "format": "date-time",
            "description": "Time at which replicas were last restarted.",
        },
        "lastRestartReason": {
            **_TEXT,
            "description": "Why they were: which replica ended, and how.",
        },
        "runtimeId": {**_TEXT, "description": "The RuntimeId in use."},
        "psRootPort": {
            **COUNT,
            "description": "Port of the scheduler in use. Only if jobMode is dist.",
        },
        "replicaStatuses": {
            "type": "array",
            "x-kubernetes-list-type": "atomic",
            "description": "State of the replicas, by type, in the order of replicaSpecs.",
            "items": {
                "type": "object",
                "properties": {
                    "Mx_replica_type": {
                        **_TEXT,
                        "description": "Type of the replicas.",
                    },
                    "state": {
                        **_TEXT,
                        "description": (
                            "Failed if any replica failed, else Running if any is running, else"
                            " Succeeded if all succeeded, else Unknown."
                        ),
                    },
                    "ReplicasStates": {
                        "type": "object",
                        "description": (
                            "Number of replicas by state: Unknown, Running, Failed, Succeeded."
                        ),
                        "additionalProperties": COUNT,
                    },
                    "active": {
                        **COUNT,
                        "description": (
                            "Number of pods that hold resources, terminating ones included."
                        ),
                    },
                    "ready": {**COUNT, "description": "Number of pods that are ready."},
                },
            },
        },
    },
)

DEFINITION = Kind(
    group=GROUP,
    version=VERSION,
    kind=KIND,
    plural=PLURAL,
    short_names=("mxj",),
    description=(
        "An MXNet training job: one pod, or the scheduler, servers and workers of a parameter"
        " server."
    ),
    spec=MxJobSpec,
    containers=(CONTAINER,),
    reasons=REASONS,
    spec_rules=SPEC_RULES,
    rules=JOB_RULES,
    columns=(
        Column(name="Phase", type="string", json_path=".status.phase"),
        Column(name="State", type="string", json_path=".status.state"),
        Column(
            name="Restarts",
            type="integer",
            json_path=".status.restarts",
            description="Number of restarts of all replicas, and of single workers.",
        ),
        PROGRESS,
        AGE,
        Column(name="RuntimeId", type="string", json_path=".status.runtimeId", priority=1),
        Column(name="Message", type="string", json_path=".status.message", priority=1),
    ),
    status=STATUS,
    not_scalable=(
        "an MxJob cannot be scaled, because a parameter server cannot be resized: delete the job"
        " and create it again with other replicas in replicaSpecs"
    ),
    older_groups=(OLDER_GROUP,),
)
"""The definition that is installed on a cluster."""
