"""ElasticJob: its definition; rules over several fields, printer columns, scale."""

from __future__ import annotations

from msgspec import structs

from traincrew.api.kind import (
    AGE,
    COUNT,
    JOB_NAME_RULE,
    MESSAGE,
    PHASE,
    PROGRESS,
    REASON,
    RESTARTS,
    Column,
    Kind,
    Rule,
    Scale,
    StatusWords,
    rules,
)
from traincrew.api.kinds.elasticjob.types import (
    C10D,
    CONTAINER,
    GROUP,
    KIND,
    MAX_NAME_AND_TYPE,
    PLURAL,
    REASONS,
    VERSION,
    WORKER,
    ElasticJobSpec,
)

_WORKER_REPLICAS = f"self.replicaSpecs['{WORKER}'].replicas"
_HAS_WORKER = f"'{WORKER}' in self.replicaSpecs"
FIT_NEEDS_ROOM = (
    "fitAvailable needs minReplicas below maxReplicas, because workers are given up down to"
    " minReplicas: lower minReplicas or remove fitAvailable"
)
_WORKERS_THERE = f"'{WORKER}' in self.spec.replicaSpecs"
_THEIR_REPLICAS = f"self.spec.replicaSpecs['{WORKER}'].replicas"


def _in_use(limit: str) -> str:
    """Return the CEL expression of a limit in the status before the update; 0 if it has none."""
    return f"(has(oldSelf.status) && has(oldSelf.status.{limit}) ? oldSelf.status.{limit} : 0)"


SPEC_RULES = rules(
    Rule(
        rule="!has(self.minReplicas) || !has(self.maxReplicas) ||"
        " self.minReplicas <= self.maxReplicas",
        message="minReplicas must be at most maxReplicas",
    ),
    Rule(
        rule=f"!has(self.minReplicas) || !({_HAS_WORKER}) ||"
        f" self.minReplicas <= {_WORKER_REPLICAS}",
        message=(
            f"replicaSpecs.{WORKER}.replicas must be at least minReplicas: write a number between"
            " minReplicas and maxReplicas, or lower minReplicas (to stop a job set suspend)"
        ),
    ),
    Rule(
        rule=f"!has(self.maxReplicas) || !({_HAS_WORKER}) ||"
        f" {_WORKER_REPLICAS} <= self.maxReplicas",
        message=(
            f"replicaSpecs.{WORKER}.replicas must be at most maxReplicas: write a number between"
            " minReplicas and maxReplicas, or raise maxReplicas"
        ),
    ),
    Rule(
        rule=f"has(self.rdzvEndpoint) || !has(self.rdzvBackend) || self.rdzvBackend == '{C10D}'",
        message=(
            "rdzvBackend needs rdzvEndpoint, the host:port where it is served; only"
            f" '{C10D}' can do without, because then the first worker serves it"
        ),
    ),
    Rule(
        rule=f"!has(self.fitAvailable) || !({_HAS_WORKER}) ||"
        f" (has(self.minReplicas) ? self.minReplicas : {_WORKER_REPLICAS}) <"
        f" (has(self.maxReplicas) ? self.maxReplicas : {_WORKER_REPLICAS})",
        message=FIT_NEEDS_ROOM,
    ),
)
"""Rules over ``spec``."""
JOB_RULES = rules(
    JOB_NAME_RULE,
    Rule(
        rule=(
            "self.spec.replicaSpecs.all(t,"
            f" size(self.metadata.name) + size(t) <= {MAX_NAME_AND_TYPE})"
        ),
        message=(
            "metadata.name and a key of spec.replicaSpecs together must have at most"
            f" {MAX_NAME_AND_TYPE} characters, because pods are named <name>-<key>-<index>"
        ),
    ),
    # Limits that are not written are in the status once there are workers.
    Rule(
        rule=f"has(self.spec.minReplicas) || {_in_use('minReplicas')} == 0 ||"
        f" !({_WORKERS_THERE}) || {_in_use('minReplicas')} <= {_THEIR_REPLICAS}",
        message=(
            f"spec.replicaSpecs.{WORKER}.replicas must be at least minReplicas, which is"
            " status.minReplicas if it is not set: write minReplicas to lower it (to stop a job"
            " set suspend)"
        ),
    ),
    Rule(
        rule=f"has(self.spec.maxReplicas) || {_in_use('maxReplicas')} == 0 ||"
        f" !({_WORKERS_THERE}) || {_THEIR_REPLICAS} <= {_in_use('maxReplicas')}",
        message=(
            f"spec.replicaSpecs.{WORKER}.replicas must be at most maxReplicas, which is"
            " status.maxReplicas if it is not set: write maxReplicas to raise it"
        ),
    ),
)
"""Rules over the whole object."""

DEFINITION = Kind(
    group=GROUP,
    version=VERSION,
    kind=KIND,
    plural=PLURAL,
    description=(
        "An elastic PyTorch training job: torchrun (TorchElastic) on a number of"
        " workers that can change."
    ),
    spec=ElasticJobSpec,
    containers=(CONTAINER,),
    reasons=REASONS,
    spec_rules=SPEC_RULES,
    rules=JOB_RULES,
    columns=(
        PHASE,
        Column(
            name="Min",
            type="integer",
            json_path=".status.minReplicas",
            description="Minimum number of workers.",
        ),
        Column(
            name="Max",
            type="integer",
            json_path=".status.maxReplicas",
            description="Maximum number of workers.",
        ),
        Column(
            name="Desired",
            type="integer",
            json_path=f".spec.replicaSpecs.{WORKER}.replicas",
            description="Desired number of workers.",
        ),
        Column(
            name="Ready",
            type="integer",
            json_path=f".status.replicaStatuses.{WORKER}.ready",
            description="Number of workers that are ready.",
        ),
        PROGRESS,
        AGE,
        structs.replace(RESTARTS, priority=1),
        Column(name="rdzvEndpoint", type="string", json_path=".spec.rdzvEndpoint", priority=1),
        REASON,
        MESSAGE,
    ),
    status=StatusWords(
        start_time="Time at which the job was accepted, or resumed.",
        replicas="Numbers of pods, by type.",
        numbers={
            "active": "Number of pods that are running, terminating ones included.",
            "ready": "Number of pods that are ready.",
            "succeeded": "Number of pods that succeeded.",
            "failed": "Number of failed pods that still exist.",
            "restarts": "Number of restarts of pods and containers.",
            "selector": "Label selector of these pods, for autoscalers.",
        },
        fields={
            "minReplicas": {
                **COUNT,
                "description": "Minimum number of workers, as their launchers were told.",
            },
            "maxReplicas": {
                **COUNT,
                "description": "Maximum number of workers, as their launchers were told.",
            },
            "failures": {
                **COUNT,
                "description": "Number of failed pods that were recreated. It never decreases.",
            },
            "fit": {
                "type": "object",
                "description": (
                    "The workers that are given up because they could not be scheduled"
                    " (fitAvailable)."
                ),
                "properties": {
                    "givenUpIndexes": {
                        "type": "string",
                        "description": 'Indexes of these workers, for example "2,4-6".',
                    },
                    "retryIndex": {
                        **COUNT,
                        "description": "Index of the worker that is being retried.",
                    },
                    "lastGivenUpTime": {
                        "type": "string",
                        "format": "date-time",
                        "description": "Time at which a worker was last given up.",
                    },
                },
            },
            "lastScaleInTime": {
                "type": "string",
                "format": "date-time",
                "description": (
                    "Time at which workers were last asked to end because replicas was lowered."
                    " A worker that fails within a minute after it is recreated."
                ),
            },
        },
        condition_times=("lastUpdateTime", "lastTransitionTime"),
    ),
    scale=Scale(
        spec_replicas_path=f".spec.replicaSpecs.{WORKER}.replicas",
        status_replicas_path=f".status.replicaStatuses.{WORKER}.active",
        label_selector_path=f".status.replicaStatuses.{WORKER}.selector",
    ),
)
"""The definition that is installed on a cluster."""
