"""Wires the graph, the collector and the namespace controller together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.controllers.garbage.collector import Collector
from traincrew.local.controllers.garbage.namespaces import NamespaceReconciler
from traincrew.local.controllers.garbage.watches import Watches
from traincrew.local.controllers.unsupported import UnsupportedReporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import HasMetadata
    from traincrew.engine.resources import Resource
    from traincrew.local.controllers.garbage.graph import Item


def add_garbage_collector(
    manager: Manager,
    events: EventRecorder,
    touched: Callable[[Resource, str], None] = lambda _resource, _namespace: None,
) -> None:
    """Collect garbage, delete the content of namespaces, report what is not emulated.

    Args:
        manager: Runs the controllers.
        events: Records their events.
        touched: Called with resource and namespace of every object that is created or deleted.
    """
    collector = Collector(manager.client, events)

    def removed(item: Item) -> None:
        namespaces.removed(item)
        touched(item.resource, item.metadata.namespace)

    def added(resource: Resource, obj: HasMetadata) -> None:
        unsupported.added(resource, obj)
        touched(resource, obj.metadata.namespace)

    unsupported = UnsupportedReporter(manager, events)
    watches = Watches(manager, collector.enqueue, removed, added, collector.discovered)
    collector.watches = watches
    namespaces = NamespaceReconciler(manager, events, watches)
    manager.add(collector.controller)
    manager.add(namespaces.controller)
    manager.add_runnable(watches.run)
