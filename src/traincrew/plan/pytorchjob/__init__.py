"""PyTorchJob: pods of a master and workers, each with a Service of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.pytorchjob.definition import DEFINITION
from traincrew.plan.pytorchjob.children import (
    COMPONENT,
    LABEL_INDEX,
    LABEL_NAME,
    LABEL_OPERATOR,
    LABEL_TYPE,
)
from traincrew.plan.pytorchjob.events import written
from traincrew.plan.pytorchjob.planner import plan
from traincrew.plan.shared.kind import (
    HORIZONTAL_POD_AUTOSCALERS,
    PODS,
    SERVICES,
    PlannedKind,
    PodPlace,
    place_by,
    replicas_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["KIND"]


def _roles(spec: dict[str, Any]) -> dict[str, int]:
    given = spec.get("pytorchReplicaSpecs")
    specs = given if isinstance(given, dict) else {}
    return {name: replicas_in(one) for name, one in sorted(specs.items())}


def _place(labels: Mapping[str, str]) -> PodPlace:
    place = place_by(LABEL_TYPE, LABEL_INDEX)(labels)
    return place._replace(role=place.role.capitalize())


KIND = PlannedKind(
    definition=DEFINITION,
    component=COMPONENT,
    label=LABEL_NAME,
    # Other kinds of training-operator have the same label with the names of their jobs.
    selector=f"{LABEL_OPERATOR}={COMPONENT},{LABEL_NAME}",
    children=(SERVICES, PODS, HORIZONTAL_POD_AUTOSCALERS),
    deletes=(SERVICES, PODS, HORIZONTAL_POD_AUTOSCALERS),
    plan=plan,
    written=written,
    roles=_roles,
    place=_place,
)
