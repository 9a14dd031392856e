"""ElasticJob: pods, each with a Service of the same name."""

from __future__ import annotations

from traincrew.api.kinds.elasticjob.definition import DEFINITION
from traincrew.plan.elasticjob.children import GROUP_NAME, LABEL_GROUP, LABEL_NAME
from traincrew.plan.elasticjob.events import COMPONENT, written
from traincrew.plan.elasticjob.planner import plan
from traincrew.plan.shared.kind import PODS, SERVICES, Kind

__all__ = ["KIND"]

KIND = Kind(
    definition=DEFINITION,
    component=COMPONENT,
    label=LABEL_NAME,
    # The Job controller of Kubernetes uses the same label.
    selector=f"{LABEL_GROUP}={GROUP_NAME},{LABEL_NAME}",
    children=(SERVICES, PODS),
    deletes=(SERVICES, PODS),
    plan=plan,
    written=written,
)
