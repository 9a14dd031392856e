"""Wires graph, collector and namespaces together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.controllers.garbage.collector import Collector
from traincrew.local.controllers.garbage.namespaces import NamespaceReconciler
from traincrew.local.controllers.garbage.watches import Watches

if TYPE_CHECKING:
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.manager import Manager
    from traincrew.local.controllers.garbage.graph import Item


def add_garbage_collector(manager: Manager, events: EventRecorder) -> None:
    """Collect garbage, and empty namespaces that are being deleted."""
    collector = Collector(manager.client, events)

    def removed(item: Item) -> None:
        namespaces.removed(item)

    watches = Watches(manager, collector.enqueue, removed)
    collector.watches = watches
    namespaces = NamespaceReconciler(manager, events, watches)
    manager.add(collector.controller)
    manager.add(namespaces.controller)
    manager.add_runnable(watches.run)
