"""TrainJob: a JobSet that is made by a runtime."""

from __future__ import annotations

from typing import Any

from traincrew.api.kinds.trainjob.definition import DEFINITION
from traincrew.api.kinds.trainjob.types import CLUSTER_RUNTIME, GROUP, NODE, RUNTIMES
from traincrew.plan.shared.kind import (
    CONFIG_MAPS,
    JOBS,
    SECRETS,
    PlannedKind,
    Protection,
    Reference,
    place_by,
)
from traincrew.plan.shared.model import ObjectKey
from traincrew.plan.shared.views import ChildView
from traincrew.plan.trainjob.children import COMPONENT, LABEL_INDEX, LABEL_NAME, LABEL_ROLE
from traincrew.plan.trainjob.planner import plan
from traincrew.plan.trainjob.policies import HOSTS_MOUNT
from traincrew.plan.trainjob.views import JOB_SET

__all__ = ["IN_USE", "KIND"]

IN_USE = f"{GROUP}/resource-in-use"
"""Finalizer of a runtime to which a job refers; pkg/constants/constants.go of Trainer."""


def _roles(spec: dict[str, Any]) -> dict[str, int]:
    trainer = spec.get("trainer")
    nodes = trainer.get("numNodes") if isinstance(trainer, dict) else None
    return {NODE: nodes if isinstance(nodes, int) else 1}


def _runtime(spec: dict[str, Any]) -> ObjectKey | None:
    """Return the runtime that a job with this spec, which may be invalid, refers to."""
    found = spec.get("runtimeRef")
    if not isinstance(found, dict) or found.get("apiGroup", GROUP) != GROUP:
        return None
    kind, name = found.get("kind", CLUSTER_RUNTIME), found.get("name")
    return ObjectKey(kind, name) if kind in RUNTIMES and isinstance(name, str) else None


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
    protection=Protection(IN_USE, _runtime),
    expires=False,
    plan=plan,
    mounts=(HOSTS_MOUNT,),
    roles=_roles,
    place=place_by(LABEL_ROLE, LABEL_INDEX),
)
