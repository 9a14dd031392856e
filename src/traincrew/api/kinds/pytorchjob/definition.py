"""PyTorchJob: its definition; rules over several fields, printer columns, scale."""

from __future__ import annotations

from traincrew.api.kind import (
    AGE,
    COUNT,
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
from traincrew.api.kinds.pytorchjob.types import (
    CONTAINER,
    GROUP,
    JOB_NAME,
    KIND,
    MANAGER,
    MASTER,
    MAX_HOST_NAME,
    PLURAL,
    REASONS,
    TYPES,
    VERSION,
    WORKER,
    PyTorchJobSpec,
)
from traincrew.api.podtemplate import has_container

PROJECT = Project(
    name="training-operator",
    # manifests/base/deployment.yaml of training-operator
    deployments="control-plane=kubeflow-training-operator",
)
_SHORTEST = len(f"-{WORKER.lower()}-0")


def _of_type(name: str, condition: str) -> str:
    """Return a CEL expression that is true if there are no replicas of a type."""
    return f"!('{name}' in self.pytorchReplicaSpecs) || {condition}"


def _trains(name: str) -> str:
    """Return a CEL expression that tells whether replicas have the container that trains."""
    return _of_type(name, has_container(f"self.pytorchReplicaSpecs.{name}.template", CONTAINER))


MANAGER_FIELD = Manager(path=("runPolicy", "managedBy"), here=MANAGER)
SPEC_RULES = rules(
    *(
        Rule(
            rule=_trains(name),
            message=(
                f"pytorchReplicaSpecs.{name}.template.spec.containers must have a container named"
                f" '{CONTAINER}': rename the one that trains"
            ),
        )
        for name in TYPES
    ),
    *(
        Rule(
            rule=_of_type(
                name,
                f"self.pytorchReplicaSpecs.{name}.template.spec.containers.all(c,"
                " has(c.image) && c.image != '')",
            ),
            message=f"pytorchReplicaSpecs.{name}.template.spec.containers must have an image each",
        )
        for name in TYPES
    ),
    Rule(
        rule=f"!has(self.elasticPolicy) || '{WORKER}' in self.pytorchReplicaSpecs",
        message=f"pytorchReplicaSpecs.{WORKER} must be configured if elasticPolicy is used",
    ),
    Rule(
        rule="!has(self.elasticPolicy) || !has(self.elasticPolicy.nProcPerNode) ||"
        " !has(self.nprocPerNode)",
        message="elasticPolicy.nProcPerNode must not be used with nprocPerNode: write only that",
    ),
    Rule(
        rule="!has(self.elasticPolicy) || !has(self.elasticPolicy.minReplicas) ||"
        " !has(self.elasticPolicy.maxReplicas) ||"
        " self.elasticPolicy.minReplicas <= self.elasticPolicy.maxReplicas",
        message="elasticPolicy.minReplicas must be at most maxReplicas",
    ),
    *manager_rules(MANAGER_FIELD),
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
        rule=f"size(self.metadata.name) <= {MAX_HOST_NAME - _SHORTEST}",
        message=(
            f"metadata.name must have at most {MAX_HOST_NAME - _SHORTEST} characters, because pods"
            " are named <name>-<type>-<index>"
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
        "A PyTorch training job of training-operator v1: a master and workers, or an elastic group"
        " of workers."
    ),
    spec=PyTorchJobSpec,
    containers=(CONTAINER,),
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
        replicas=f"Numbers of pods of the {MASTER} and the {WORKER}.",
        numbers={
            "active": "Number of pods that are running, terminating ones included.",
            "ready": "Number of pods that are ready.",
            "succeeded": "Number of pods that succeeded.",
            "failed": "Number of failed pods that still exist.",
            "restarts": "Number of restarts of pods and containers.",
            "selector": "Label selector of these pods, for autoscalers.",
        },
        fields={
            "failures": {
                **COUNT,
                "description": "Number of failed pods that were recreated. It never decreases.",
            },
        },
        condition_times=("lastUpdateTime", "lastTransitionTime"),
    ),
    scale=Scale(
        spec_replicas_path=f".spec.pytorchReplicaSpecs.{WORKER}.replicas",
        status_replicas_path=f".status.replicaStatuses.{WORKER}.active",
        label_selector_path=f".status.replicaStatuses.{WORKER}.selector",
    ),
    project=PROJECT,
    manager=MANAGER_FIELD,
)
"""The definition that the embedded cluster has; other clusters have that of training-operator."""
