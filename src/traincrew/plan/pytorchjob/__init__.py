"""PyTorchJob: pods of a master and workers, each with a Service of the same name."""

from __future__ import annotations

from traincrew.api.kinds.pytorchjob.definition import DEFINITION
from traincrew.api.kinds.pytorchjob.types import KIND as NAME
from traincrew.plan.pytorchjob.children import COMPONENT, LABELS
from traincrew.plan.pytorchjob.planner import plan
from traincrew.plan.shared.kind import HORIZONTAL_POD_AUTOSCALERS, PODS, SERVICES, PlannedKind
from traincrew.plan.shared.replicas.places import roles
from traincrew.plan.shared.replicas.reports import written

__all__ = ["KIND"]

KIND = PlannedKind(
    definition=DEFINITION,
    component=COMPONENT,
    label=LABELS.job,
    selector=LABELS.selector,
    children=(SERVICES, PODS, HORIZONTAL_POD_AUTOSCALERS),
    deletes=(SERVICES, PODS, HORIZONTAL_POD_AUTOSCALERS),
    plan=plan,
    written=lambda what, keys: written(NAME, what, keys),
    roles=lambda spec: roles(spec.get("pytorchReplicaSpecs")),
    place=LABELS.place,
)
