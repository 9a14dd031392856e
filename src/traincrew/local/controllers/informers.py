"""The caches that all controllers of the embedded cluster share: one watch per resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.engine.objects import AnyObject, controller_of
from traincrew.engine.resources import (
    CLUSTER_ROLES,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from traincrew.engine.cache import Indexer, Informer
    from traincrew.engine.controller import Manager
    from traincrew.engine.resources import Resource

ORPHANS = "orphans"
"""Index: namespace -> objects without controller, which a matching workload adopts."""
CONTROLLER = "controller"
"""Index: UID of the controller -> objects it controls."""

NAMESPACE = "namespace"
"""Index: namespace -> objects in it."""


def _orphans(obj: AnyObject) -> Iterable[str]:
    return () if controller_of(obj) else (obj.metadata.namespace,)


def _controller(obj: AnyObject) -> Iterable[str]:
    owner = controller_of(obj)
    return (owner.uid,) if owner else ()


def _namespace(obj: AnyObject) -> Iterable[str]:
    return (obj.metadata.namespace,)


_INDEXERS: Mapping[str, Indexer[AnyObject]] = {
    ORPHANS: _orphans,
    CONTROLLER: _controller,
    NAMESPACE: _namespace,
}

SHARED = frozenset(
    {
        CLUSTER_ROLES,
        CONTROLLER_REVISIONS,
        DEPLOYMENTS,
        ENDPOINTS,
        ENDPOINT_SLICES,
        JOBS,
        NAMESPACES,
        NODES,
        PERSISTENT_VOLUME_CLAIMS,
        PERSISTENT_VOLUMES,
        PODS,
        POD_DISRUPTION_BUDGETS,
        REPLICA_SETS,
        REPLICATION_CONTROLLERS,
        RESOURCE_QUOTAS,
        SERVICES,
        SERVICE_ACCOUNTS,
        STATEFUL_SETS,
    }
)
"""Resources that some controller needs with body; of all others only metadata is watched."""


def informer(manager: Manager, resource: Resource) -> Informer[AnyObject]:
    """Return the shared cache of a resource, bodies included."""
    return manager.informer(resource, indexers=_INDEXERS)


def pods(manager: Manager) -> Informer[AnyObject]:
    """Return all pods."""
    return informer(manager, PODS)
