"""ChainerJob: a master Job and worker StatefulSets, connected by MPI."""

from __future__ import annotations

from traincrew.api.kinds.chainerjob.definition import DEFINITION
from traincrew.plan.chainerjob.children import LABEL_NAME, PATHS
from traincrew.plan.chainerjob.planner import plan
from traincrew.plan.shared.kind import (
    CONFIG_MAPS,
    JOBS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    Kind,
    Permission,
)

__all__ = ["KIND"]

KIND = Kind(
    definition=DEFINITION,
    component="chainer-job-controller",
    label=LABEL_NAME,
    children=(SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, CONFIG_MAPS, STATEFUL_SETS, JOBS),
    deletes=(STATEFUL_SETS,),
    grants=(Permission("", "pods/exec", ("get", "create")),),
    plan=plan,
    mounts=(PATHS.base,),
    has_peers=lambda spec: bool(spec.get("workerSets")),
)
