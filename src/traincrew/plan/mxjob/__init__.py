"""MxJob: a batch Job for each replica, and the scheduler's Service."""

from __future__ import annotations

from typing import Any

from traincrew.api.kinds.mxjob.definition import DEFINITION
from traincrew.api.kinds.mxjob.types import WORKER
from traincrew.plan.mxjob.children import LABEL_INDEX, LABEL_NAME, LABEL_TYPE
from traincrew.plan.mxjob.events import COMPONENT, written
from traincrew.plan.mxjob.planner import plan
from traincrew.plan.shared.kind import JOBS, SERVICES, PlannedKind, place_by, replicas_in

__all__ = ["KIND"]


def _roles(spec: dict[str, Any]) -> dict[str, int]:
    given = spec.get("replicaSpecs")
    specs = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    return {str(one.get("mxReplicaType", WORKER)): replicas_in(one) for one in specs}


KIND = PlannedKind(
    definition=DEFINITION,
    component=COMPONENT,
    label=LABEL_NAME,
    children=(SERVICES, JOBS),
    deletes=(JOBS,),
    plan=plan,
    writes_spec=True,
    written=written,
    has_peers=lambda spec: spec.get("jobMode") != "local",
    roles=_roles,
    place=place_by(LABEL_TYPE, LABEL_INDEX),
)
