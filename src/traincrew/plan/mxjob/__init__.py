"""MxJob: a batch Job for each replica, and the scheduler's Service."""

from __future__ import annotations

from traincrew.api.kinds.mxjob.definition import DEFINITION
from traincrew.plan.mxjob.children import LABEL_NAME
from traincrew.plan.mxjob.events import COMPONENT, written
from traincrew.plan.mxjob.planner import plan
from traincrew.plan.shared.kind import JOBS, SERVICES, Kind

__all__ = ["KIND"]

KIND = Kind(
    definition=DEFINITION,
    component=COMPONENT,
    label=LABEL_NAME,
    children=(SERVICES, JOBS),
    deletes=(JOBS,),
    plan=plan,
    written=written,
    has_peers=lambda spec: spec.get("jobMode") != "local",
)
