"""MXJob of training-operator v1: pods of each type, each with a Service of the same name."""

from __future__ import annotations

from traincrew.api.kinds.mxjobv1.definition import DEFINITION
from traincrew.api.kinds.mxjobv1.types import KIND as NAME
from traincrew.plan.mxjobv1.children import COMPONENT, LABELS
from traincrew.plan.mxjobv1.planner import plan
from traincrew.plan.shared.kind import PODS, SERVICES, PlannedKind
from traincrew.plan.shared.replicas.places import roles
from traincrew.plan.shared.replicas.reports import written

__all__ = ["KIND"]

KIND = PlannedKind(
    definition=DEFINITION,
    component=COMPONENT,
    label=LABELS.job,
    selector=LABELS.selector,
    children=(SERVICES, PODS),
    deletes=(SERVICES, PODS),
    plan=plan,
    written=lambda what, keys: written(NAME, what, keys),
    roles=lambda spec: roles(spec.get("mxReplicaSpecs")),
    place=LABELS.place,
)
