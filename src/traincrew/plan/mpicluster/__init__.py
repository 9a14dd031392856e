"""MPICluster: a master pod and a StatefulSet of workers, connected by ssh or `kubectl exec`."""

from __future__ import annotations

from typing import Any

from traincrew.api.kinds.mpicluster.definition import DEFINITION
from traincrew.api.kinds.mpicluster.transport import OWN_MOUNTS
from traincrew.api.kinds.mpicluster.types import DEFAULT_REPLICAS
from traincrew.plan.mpicluster.children import LABEL_NAME
from traincrew.plan.mpicluster.events import COMPONENT
from traincrew.plan.mpicluster.planner import plan
from traincrew.plan.shared.kind import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Permission,
    PlannedKind,
    replicas_in,
)

__all__ = ["KIND"]

KIND = PlannedKind(
    definition=DEFINITION,
    component=COMPONENT,
    label=LABEL_NAME,
    children=(
        SERVICE_ACCOUNTS,
        ROLES,
        ROLE_BINDINGS,
        SECRETS,
        CONFIG_MAPS,
        SERVICES,
        POD_DISRUPTION_BUDGETS,
        NETWORK_POLICIES,
        STATEFUL_SETS,
        PODS,
    ),
    deletes=(SERVICES, POD_DISRUPTION_BUDGETS, NETWORK_POLICIES, PODS),
    grants=(Permission("", "pods/exec", ("get", "create")),),
    plan=plan,
    mounts=OWN_MOUNTS,
    has_peers=lambda spec: _workers(spec) != 0,
    roles=lambda spec: {"master": 1, "worker": _workers(spec)},
    decides=("master",),
)


def _workers(spec: dict[str, Any]) -> int:
    """Return the number of workers as written in a spec that may be invalid."""
    return replicas_in(spec.get("workers"), DEFAULT_REPLICAS)
