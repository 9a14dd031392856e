"""MPICluster: a master pod and a StatefulSet of workers, connected by ssh."""

from __future__ import annotations

from traincrew.api.kinds.mpicluster.definition import DEFINITION
from traincrew.api.kinds.mpicluster.types import DEFAULT_REPLICAS, OWN_MOUNTS
from traincrew.plan.mpicluster.children import LABEL_NAME
from traincrew.plan.mpicluster.events import COMPONENT
from traincrew.plan.mpicluster.planner import plan
from traincrew.plan.shared.kind import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Kind,
)

__all__ = ["KIND"]

KIND = Kind(
    definition=DEFINITION,
    component=COMPONENT,
    label=LABEL_NAME,
    children=(
        SECRETS,
        CONFIG_MAPS,
        SERVICES,
        POD_DISRUPTION_BUDGETS,
        NETWORK_POLICIES,
        STATEFUL_SETS,
        PODS,
    ),
    deletes=(SERVICES, POD_DISRUPTION_BUDGETS, NETWORK_POLICIES, PODS),
    plan=plan,
    completes=False,
    mounts=OWN_MOUNTS,
    has_peers=lambda spec: _replicas(spec) != 0,
)


def _replicas(spec: object) -> object:
    """Return the number of workers as written in a spec that may be invalid."""
    workers = spec.get("workers") if isinstance(spec, dict) else None
    given = workers.get("replicas") if isinstance(workers, dict) else None
    return DEFAULT_REPLICAS if given is None else given
