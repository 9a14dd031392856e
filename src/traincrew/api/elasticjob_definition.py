"""ElasticJob: how it is defined at an API server; rules over several fields, columns, scale."""

from __future__ import annotations

from msgspec import structs

from traincrew.api.elasticjob import (
    C10D,
    GROUP,
    JOB_NAME,
    KIND,
    MAX_NAME_AND_TYPE,
    PLURAL,
    VERSION,
    WORKER,
    ElasticJobSpec,
)
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
    Scale,
    StatusWords,
    rules,
)

_WORKER_REPLICAS = f"self.replicaSpecs['{WORKER}'].replicas"
_HAS_WORKER = f"'{WORKER}' in self.replicaSpecs"
FIT_NEEDS_ROOM = (
    "fitAvailable needs minReplicas below maxReplicas, because workers are given up down to"
    " minReplicas: lower minReplicas or remove fitAvailable"
)
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
    Rule(
        rule=f"self.metadata.name.matches('{JOB_NAME}')",
        message=(
            "metadata.name becomes part of host names: it must begin with a letter and have"
            " only lower case letters, digits and '-'"
        ),
    ),
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
)
"""Rules over the whole object."""

ELASTIC_JOB = Kind(
    group=GROUP,
    version=VERSION,
    kind=KIND,
    plural=PLURAL,
    description="A PyTorch training job whose workers may come and go (torchrun, TorchElastic).",
    spec=ElasticJobSpec,
    spec_rules=SPEC_RULES,
    rules=JOB_RULES,
    columns=(
        PHASE,
        Column(
            name="Min",
            type="integer",
            json_path=".spec.minReplicas",
            description="Training goes on with as few workers.",
        ),
        Column(
            name="Max",
            type="integer",
            json_path=".spec.maxReplicas",
            description="Training can use as many workers.",
        ),
        Column(
            name="Desired",
            type="integer",
            json_path=f".spec.replicaSpecs.{WORKER}.replicas",
            description="Workers asked for.",
        ),
        Column(
            name="Ready",
            type="integer",
            json_path=f".status.replicaStatuses.{WORKER}.ready",
            description="Worker pods that are ready.",
        ),
        AGE,
        structs.replace(RESTARTS, priority=1),
        Column(name="rdzvEndpoint", type="string", json_path=".spec.rdzvEndpoint", priority=1),
        REASON,
        MESSAGE,
    ),
    status=StatusWords(
        start_time="When the job was first seen, or resumed.",
        replicas="The pods of every type.",
        numbers={
            "active": "Pods that run, terminating ones included.",
            "ready": "Pods that are ready.",
            "succeeded": "Pods that have succeeded.",
            "failed": "Pods that have failed and are still there.",
            "restarts": "How often pods and containers were started again.",
            "selector": "Selects these pods; for autoscalers.",
        },
        fields={
            "failures": {
                **COUNT,
                "description": "How often pods failed and were made again; never falls.",
            },
            "fit": {
                "type": "object",
                "description": "The workers that are given up for want of room (fitAvailable).",
                "properties": {
                    "givenUpIndexes": {
                        "type": "string",
                        "description": 'Their indices, as in "2,4-6".',
                    },
                    "retryIndex": {
                        **COUNT,
                        "description": "The one of them that is being asked for again.",
                    },
                    "lastGivenUpTime": {
                        "type": "string",
                        "format": "date-time",
                        "description": "When the last one was given up, or was so again.",
                    },
                },
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
"""What is installed on a cluster."""
