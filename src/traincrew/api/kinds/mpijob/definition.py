"""MPIJob: its definition; rules over several fields, printer columns, scale."""

from __future__ import annotations

from traincrew.api.kind import (
    AGE,
    JOB_NAME_RULE,
    MESSAGE,
    PROGRESS,
    REASON,
    Column,
    Kind,
    Manager,
    Project,
    Rule,
    Scale,
    StatusWords,
    manager_rules,
    rules,
)
from traincrew.api.kinds.mpijob.types import (
    GROUP,
    KIND,
    LAUNCHER,
    MANAGER,
    MAX_HOST_NAME,
    PLURAL,
    REASONS,
    TYPES,
    VERSION,
    WORKER,
    MPIJobSpec,
)

PROJECT = Project(
    name="mpi-operator",
    # manifests/base/deployment.yaml and deploy/v2beta1/mpi-operator.yaml of mpi-operator
    deployments="app.kubernetes.io/name=mpi-operator,app.kubernetes.io/component=mpijob",
    # cmd/mpi-operator/app/server.go
    lease="mpi-operator",
)
_SHORTEST = len("-launcher")


def _has_containers(name: str) -> str:
    """Return a CEL expression that tells whether replicas of a type, if any, have a container."""
    containers = f"self.mpiReplicaSpecs.{name}.template.spec.containers"
    return f"!('{name}' in self.mpiReplicaSpecs) || size({containers}) > 0"


MANAGER_FIELD = Manager(path=("runPolicy", "managedBy"), here=MANAGER)
SPEC_RULES = rules(
    *(
        Rule(
            rule=_has_containers(name),
            message=f"mpiReplicaSpecs.{name}.template.spec.containers must have a container",
        )
        for name in TYPES
    ),
    *manager_rules(MANAGER_FIELD),
)
"""Rules over ``spec``."""
JOB_RULES = rules(
    JOB_NAME_RULE,
    Rule(
        rule=f"size(self.metadata.name) <= {MAX_HOST_NAME - _SHORTEST}",
        message=(
            f"metadata.name must have at most {MAX_HOST_NAME - _SHORTEST} characters, because hosts"
            " are named <name>-launcher and <name>-worker-<index>"
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
        "An MPI job of mpi-operator: a launcher that runs mpirun, and workers that it reaches by"
        " ssh."
    ),
    spec=MPIJobSpec,
    reasons=REASONS,
    spec_rules=SPEC_RULES,
    rules=JOB_RULES,
    columns=(
        Column(name="State", type="string", json_path=".status.phase"),
        PROGRESS,
        AGE,
        REASON,
        MESSAGE,
    ),
    status=StatusWords(
        start_time="Time at which the job was accepted, or resumed.",
        replicas=f"Numbers of pods of the {LAUNCHER} and the {WORKER}.",
        numbers={
            "active": "Number of pods that are running, terminating ones included.",
            "ready": "Number of pods that are ready.",
            "succeeded": "Number of pods that succeeded.",
            "failed": "Number of pods that failed.",
            "restarts": "Number of restarts of pods and containers.",
            "selector": "Label selector of these pods, for autoscalers.",
        },
        condition_times=("lastUpdateTime", "lastTransitionTime"),
    ),
    scale=Scale(
        spec_replicas_path=f".spec.mpiReplicaSpecs.{WORKER}.replicas",
        status_replicas_path=f".status.replicaStatuses.{WORKER}.active",
        label_selector_path=f".status.replicaStatuses.{WORKER}.selector",
    ),
    project=PROJECT,
    manager=MANAGER_FIELD,
)
"""The definition that the embedded cluster has; other clusters have that of mpi-operator."""
