"""MPIJob: the Job of a launcher, and pods of workers that it reaches by ssh."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.mpijob.definition import DEFINITION
from traincrew.api.kinds.mpijob.types import CONFIG_MOUNT, LAUNCHER, WORKER
from traincrew.plan.mpijob.children import (
    COMPONENT,
    LABEL_INDEX,
    LABEL_NAME,
    LABEL_OPERATOR,
    LABEL_ROLE,
    OPERATOR,
)
from traincrew.plan.mpijob.planner import plan
from traincrew.plan.shared.kind import (
    CONFIG_MAPS,
    JOBS,
    PODS,
    SECRETS,
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
    given = spec.get("mpiReplicaSpecs")
    specs = given if isinstance(given, dict) else {}
    workers = {WORKER: replicas_in(specs[WORKER])} if WORKER in specs else {}
    return {LAUNCHER: 1, **workers}


def _place(labels: Mapping[str, str]) -> PodPlace:
    place = place_by(LABEL_ROLE, LABEL_INDEX)(labels)
    return place._replace(role=place.role.capitalize())


KIND = PlannedKind(
    definition=DEFINITION,
    component=COMPONENT,
    label=LABEL_NAME,
    # Kinds of training-operator have the same label with the names of their jobs.
    selector=f"{LABEL_OPERATOR}={OPERATOR},{LABEL_NAME}",
    children=(SERVICES, CONFIG_MAPS, SECRETS, PODS, JOBS),
    deletes=(PODS, JOBS),
    expires=False,
    plan=plan,
    mounts=(CONFIG_MOUNT,),
    roles=_roles,
    place=_place,
    decides=(LAUNCHER,),
)
