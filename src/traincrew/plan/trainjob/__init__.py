"""TrainJob: a JobSet that is made by a runtime."""

from __future__ import annotations

from typing import Any

from traincrew.api.kinds.trainjob.definition import DEFINITION
from traincrew.api.kinds.trainjob.types import NODE
from traincrew.plan.shared.kind import (
    CONFIG_MAPS,
    JOBS,
    SECRETS,
    PlannedKind,
    Reference,
    place_by,
)
from traincrew.plan.shared.views import ChildView
from traincrew.plan.trainjob.children import COMPONENT, LABEL_INDEX, LABEL_NAME, LABEL_ROLE
from traincrew.plan.trainjob.planner import plan
from traincrew.plan.trainjob.policies import HOSTS_MOUNT
from traincrew.plan.trainjob.views import JOB_SET

__all__ = ["KIND"]


def _roles(spec: dict[str, Any]) -> dict[str, int]:
    trainer = spec.get("trainer")
    nodes = trainer.get("numNodes") if isinstance(trainer, dict) else None
    return {NODE: nodes if isinstance(nodes, int) else 1}


KIND = PlannedKind(
    definition=DEFINITION,
    component=COMPONENT,
    label=LABEL_NAME,
    children=(CONFIG_MAPS, SECRETS, JOB_SET),
    deletes=(JOB_SET,),
    # The Jobs of the JobSet.
    descendants=(JOBS._replace(view=ChildView),),
    references=tuple(
        Reference(each.group, each.version, each.plural, each.kind, each.namespaced)
        for each in DEFINITION.referenced
    ),
    expires=False,
    plan=plan,
    mounts=(HOSTS_MOUNT,),
    roles=_roles,
    place=place_by(LABEL_ROLE, LABEL_INDEX),
)
