"""ChainerJob: a master Job and worker StatefulSets, connected by MPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.chainerjob.definition import DEFINITION
from traincrew.plan.chainerjob.children import LABEL_NAME, LABEL_SET, PATHS, ROLE_MASTER
from traincrew.plan.chainerjob.planner import plan
from traincrew.plan.shared.kind import (
    CONFIG_MAPS,
    JOBS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    Permission,
    PlannedKind,
    PodPlace,
    labelled_place,
    replicas_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["KIND"]


def _roles(spec: dict[str, Any]) -> dict[str, int]:
    sets = spec.get("workerSets")
    named = sets if isinstance(sets, dict) else {}
    return {ROLE_MASTER: 1, **{name: replicas_in(one) for name, one in named.items()}}


def _place(labels: Mapping[str, str]) -> PodPlace:
    place = labelled_place(labels)
    return PodPlace(labels.get(LABEL_SET, place.role), place.rank)


KIND = PlannedKind(
    definition=DEFINITION,
    component="chainer-job-controller",
    label=LABEL_NAME,
    children=(SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, CONFIG_MAPS, STATEFUL_SETS, JOBS),
    deletes=(STATEFUL_SETS, JOBS),
    grants=(Permission("", "pods/exec", ("get", "create")),),
    plan=plan,
    mounts=(PATHS.base,),
    has_peers=lambda spec: bool(spec.get("workerSets")),
    roles=_roles,
    place=_place,
    decides=(ROLE_MASTER,),
)
