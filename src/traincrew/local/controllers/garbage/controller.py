"""Wires graph, collector and namespaces together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.controllers.garbage.collector import Collector
from traincrew.local.controllers.garbage.namespaces import NamespaceReconciler
from traincrew.local.controllers.garbage.watches import Watches
from traincrew.local.controllers.unsupported import Teller

if TYPE_CHECKING:
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.manager import Manager
    from traincrew.local.controllers.garbage.graph import Item


def add_garbage_collector(manager: Manager, events: EventRecorder) -> None:
    """Collect garbage, empty namespaces that are being deleted, tell what is not emulated."""
    collector = Collector(manager.client, events)

    def removed(item: Item) -> None:
        namespaces.removed(item)

    teller = Teller(manager, events)
    watches = Watches(manager, collector.enqueue, removed, teller.added)
    collector.watches = watches
    namespaces = NamespaceReconciler(manager, events, watches)
    manager.add(collector.controller)
    manager.add(namespaces.controller)
    manager.add_runnable(watches.run)
