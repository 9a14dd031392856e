"""MXJob: its definition; rules over several fields, printer columns."""

from __future__ import annotations

from traincrew.api.kind import Kind, rules
from traincrew.api.kinds.mxjobv1.types import (
    CONTAINER,
    KIND,
    PLURAL,
    REASONS,
    TUNER,
    TYPES,
    MXJobSpec,
)
from traincrew.api.trainingoperator.definition import (
    COLUMNS,
    MANAGED_BY,
    name_rules,
    status,
    template_rules,
)
from traincrew.api.trainingoperator.types import GROUP, MANAGER, PROJECT, VERSION

DEFINITION = Kind(
    group=GROUP,
    version=VERSION,
    kind=KIND,
    plural=PLURAL,
    description=(
        "An MXNet job of training-operator v1: a scheduler, servers and workers, or an auto-tuning"
        " run. MxJob of mxnet-operator is another kind."
    ),
    spec=MXJobSpec,
    containers=(CONTAINER,),
    reasons=REASONS,
    spec_rules=rules(*template_rules("mxReplicaSpecs", TYPES, CONTAINER), *MANAGED_BY),
    rules=rules(*name_rules(TUNER)),
    columns=COLUMNS,
    status=status("Numbers of pods of each type."),
    not_scalable="the number of pods is fixed in DMLC_NUM_WORKER: create another job",
    project=PROJECT,
    manager=MANAGER,
)
"""The definition that the embedded cluster has; other clusters have that of training-operator."""
