"""PyTorchJob: its definition; rules over several fields, printer columns, scale."""

from __future__ import annotations

from traincrew.api.kind import Kind, Rule, Scale, rules
from traincrew.api.kinds.pytorchjob.types import (
    CONTAINER,
    KIND,
    MASTER,
    PLURAL,
    REASONS,
    TYPES,
    WORKER,
    PyTorchJobSpec,
)
from traincrew.api.trainingoperator.definition import (
    COLUMNS,
    MANAGED_BY,
    name_rules,
    status,
    template_rules,
)
from traincrew.api.trainingoperator.types import GROUP, MANAGER, PROJECT, VERSION

SPEC_RULES = rules(
    *template_rules("pytorchReplicaSpecs", TYPES, CONTAINER),
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
    *MANAGED_BY,
)
"""Rules over ``spec``."""

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
    rules=rules(*name_rules(WORKER)),
    columns=COLUMNS,
    status=status(f"Numbers of pods of the {MASTER} and the {WORKER}."),
    scale=Scale(
        spec_replicas_path=f".spec.pytorchReplicaSpecs.{WORKER}.replicas",
        status_replicas_path=f".status.replicaStatuses.{WORKER}.active",
        label_selector_path=f".status.replicaStatuses.{WORKER}.selector",
    ),
    project=PROJECT,
    manager=MANAGER,
)
"""The definition that the embedded cluster has; other clusters have that of training-operator."""
