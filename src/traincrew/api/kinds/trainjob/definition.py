"""TrainJob: its definition, and those of its runtimes."""

from __future__ import annotations

from traincrew.api.kind import (
    AGE,
    COUNT,
    JOB_NAME,
    MESSAGE,
    PROGRESS,
    REASON,
    Column,
    Kind,
    Manager,
    Project,
    Rule,
    StatusWords,
    rules,
)
from traincrew.api.kinds.trainjob import runtime, shipped
from traincrew.api.kinds.trainjob.types import (
    GROUP,
    KIND,
    MANAGER,
    PLURAL,
    REASONS,
    VERSION,
    TrainJobSpec,
)

PROJECT = Project(
    name="Trainer",
    # manifests/base/manager/manager.yaml and charts/kubeflow-trainer of Trainer set this label.
    deployments="app.kubernetes.io/name=trainer",
    # manifests/base/manager/controller_manager_config.yaml
    lease="trainer.kubeflow.org",
)
_TIME = {"type": "string", "format": "date-time"}
_TEXT = {"type": "string"}
_COUNTS = {
    "ready": "Number of Jobs whose pods are all ready, or have succeeded.",
    "succeeded": "Number of Jobs that have succeeded.",
    "failed": "Number of Jobs that have failed.",
    "active": "Number of Jobs with pods that run or wait.",
    "suspended": "Number of suspended Jobs.",
}
_JOBS_STATUS = {
    "description": "The Jobs of each replicated job of the JobSet, by state.",
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {
        "type": "object",
        "required": ["name", *_COUNTS],
        "properties": {
            "name": {**_TEXT, "description": "Name of the replicated job."},
            **{name: {**COUNT, "description": text} for name, text in _COUNTS.items()},
        },
    },
}
_TRAINER_STATUS = {
    "description": "The newest report of the training program, as status.progress has it.",
    "type": "object",
    "properties": {
        "progressPercentage": {**COUNT, "description": "How much is done, in percent."},
        "estimatedRemainingSeconds": {**COUNT, "description": "How long it will still take."},
        "metrics": {
            "description": "Metrics as the program wrote them.",
            "type": "array",
            "x-kubernetes-list-type": "atomic",
            "items": {
                "type": "object",
                "required": ["name", "value"],
                "properties": {"name": _TEXT, "value": _TEXT},
            },
        },
        "lastUpdatedTime": {**_TIME, "description": "When the report arrived."},
    },
}

DEFINITION = Kind(
    group=GROUP,
    version=VERSION,
    kind=KIND,
    plural=PLURAL,
    description="A training job of Kubeflow Trainer, which is made into a JobSet by its runtime.",
    spec=TrainJobSpec,
    reasons=REASONS,
    spec_rules=rules(
        Rule(
            rule="self.?runtimePatches == oldSelf.?runtimePatches || self.?suspend.orValue(false)",
            message="runtimePatches can only be modified when the TrainJob is suspended",
        ),
    ),
    rules=rules(
        Rule(
            rule=f"self.metadata.name.matches('{JOB_NAME}')",
            message="metadata.name must match RFC 1035 DNS label format",
        ),
        Rule(
            rule="size(self.metadata.name) <= 63",
            message="metadata.name must be no more than 63 characters",
        ),
    ),
    columns=(
        Column(name="State", type="string", json_path=".status.conditions[-1:].type"),
        AGE,
        PROGRESS,
        REASON,
        MESSAGE,
    ),
    status=StatusWords(
        start_time="Time at which the job was accepted, or resumed.",
        replicas="Numbers of pods, by replicated job of the JobSet.",
        numbers={
            "active": "Number of pods that hold resources, terminating ones included.",
            "ready": "Number of pods that are ready.",
        },
        fields={"jobsStatus": _JOBS_STATUS, "trainerStatus": _TRAINER_STATUS},
    ),
    project=PROJECT,
    manager=Manager(here=MANAGER),
    referenced=runtime.definitions(),
    objects=shipped.RUNTIMES,
)
"""The definition that the embedded cluster has; other clusters have that of Trainer."""
