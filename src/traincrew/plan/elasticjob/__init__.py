"""ElasticJob: pods, each with a Service of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.elasticjob.definition import DEFINITION
from traincrew.api.kinds.elasticjob.types import WORKER
from traincrew.plan.elasticjob.children import (
    GROUP_NAME,
    LABEL_GROUP,
    LABEL_INDEX,
    LABEL_NAME,
    LABEL_TYPE,
)
from traincrew.plan.elasticjob.events import COMPONENT, written
from traincrew.plan.elasticjob.planner import plan
from traincrew.plan.shared.kind import PODS, SERVICES, PlannedKind, PodPlace, place_by, replicas_in

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["KIND"]


def _roles(spec: dict[str, Any]) -> dict[str, int]:
    given = spec.get("replicaSpecs")
    specs = given if isinstance(given, dict) else {}
    return {name: replicas_in(one) for name, one in sorted(specs.items())}


def _place(labels: Mapping[str, str]) -> PodPlace:
    place = place_by(LABEL_TYPE, LABEL_INDEX)(labels)
    return place._replace(role=place.role.capitalize())


KIND = PlannedKind(
    definition=DEFINITION,
    component=COMPONENT,
    label=LABEL_NAME,
    # The Job controller of Kubernetes uses the same label.
    selector=f"{LABEL_GROUP}={GROUP_NAME},{LABEL_NAME}",
    children=(SERVICES, PODS),
    deletes=(SERVICES, PODS),
    plan=plan,
    written=written,
    roles=_roles,
    place=_place,
    decides=(WORKER,),
)
