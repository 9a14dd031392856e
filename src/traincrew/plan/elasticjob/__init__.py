"""ElasticJob: pods, each with a Service of the same name."""

from __future__ import annotations

from traincrew.api.kinds.elasticjob.definition import DEFINITION
from traincrew.api.kinds.elasticjob.types import WORKER
from traincrew.plan.elasticjob.children import LABELS
from traincrew.plan.elasticjob.events import COMPONENT, written
from traincrew.plan.elasticjob.planner import plan
from traincrew.plan.shared.kind import PODS, SERVICES, PlannedKind
from traincrew.plan.shared.replicas.places import roles

__all__ = ["KIND"]

KIND = PlannedKind(
    definition=DEFINITION,
    component=COMPONENT,
    label=LABELS.job,
    selector=LABELS.selector,
    children=(SERVICES, PODS),
    deletes=(SERVICES, PODS),
    plan=plan,
    written=written,
    roles=lambda spec: roles(spec.get("replicaSpecs")),
    place=LABELS.place,
    decides=(WORKER,),
)
