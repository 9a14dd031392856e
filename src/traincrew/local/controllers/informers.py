"""The caches that all controllers of the embedded cluster share: one watch per resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.engine.controller import Request
from traincrew.engine.objects import AnyObject, controller_of
from traincrew.engine.resources import PODS
from traincrew.local.controllers.selectors import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

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


def informer(manager: Manager, resource: Resource) -> Informer[AnyObject]:
    """Return the shared cache of a resource, bodies included."""
    return manager.informer(resource, indexers=_INDEXERS)


def is_shared(manager: Manager, resource: Resource) -> bool:
    """Return whether a controller has asked for the objects of a resource, bodies included."""
    return manager.has_informer(resource, indexers=_INDEXERS)


def pods(manager: Manager) -> Informer[AnyObject]:
    """Return all pods."""
    return informer(manager, PODS)


def possible_adopters(
    owners: Informer[AnyObject],
    selector_of: Callable[[AnyObject], Mapping[str, Any] | None],
    obj: AnyObject,
) -> list[Request]:
    """Return the workloads that may adopt an object; none if it has a controller.

    Args:
        owners: The workloads.
        selector_of: Returns the selector of one, as a `metav1.LabelSelector`.
        obj: The object.
    """
    if controller_of(obj) is not None:
        return []
    return [
        Request(item.metadata.namespace, item.metadata.name)
        for item in owners.store.by_index(NAMESPACE, obj.metadata.namespace)
        if matches(selector_of(item), obj.metadata.labels)
    ]
