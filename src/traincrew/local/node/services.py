"""Services on this machine: their names in pods, and their proxy."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from traincrew.local.node.network.serviceproxy import ServiceProxy, listeners
from traincrew.local.node.network.zone import ClusterNames
from traincrew.local.node.pods.unsupported import unsupported_service

if TYPE_CHECKING:
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject
    from traincrew.local.node.informers import NodeInformers
    from traincrew.local.node.network.hosts import HostsFiles

__all__ = ["Services"]


class Services:
    """Keeps DNS, hosts files and proxy in line with the Services of the API.

    Args:
        informers: The caches of Services and EndpointSlices.
        hosts: The hosts files of pods.
        events: Records an event about fields without effect.

    Attributes:
        names: The names that the DNS server resolves.
    """

    def __init__(self, informers: NodeInformers, hosts: HostsFiles, events: EventRecorder) -> None:
        self._services, self._slices = informers.services, informers.slices
        self._hosts = hosts
        self._events = events
        self._proxy = ServiceProxy(self._refused)
        self._changed = asyncio.Event()
        self.names = ClusterNames(self._services.store.list, self._slices.store.list)
        hosts.names = lambda: self.names.zone().addresses()

    def follow(self) -> None:
        """Register handlers for changes."""
        self._services.add_handler(self._on_service)
        for informer in (self._services, self._slices):
            informer.add_handler(lambda *_: self._changed.set())
            informer.add_handler(self.names.changed)

    async def run(self) -> None:
        """Publish changes until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._proxy.retry_seconds):
                    await self._changed.wait()
            except TimeoutError:
                await self._proxy.retry()
                continue
            self._changed.clear()
            services = self._services.store.list()
            slices = self._slices.store.list()
            self._hosts.update()
            await self._proxy.serve(listeners(services, slices))

    async def wait_synced(self) -> None:
        """Wait until all names are known."""
        await self._services.wait_synced()
        await self._slices.wait_synced()

    async def close(self) -> None:
        """Stop listening and close all connections."""
        await self._proxy.close()

    def _on_service(self, old: AnyObject | None, new: AnyObject | None) -> None:
        known = self._services.delivering_list
        if new is None or known or (old is not None and old.spec == new.spec):
            return
        if found := unsupported_service(new.spec):
            lines = "; ".join(f"{each.field}: {each.why}" for each in found)
            self._record_event(new, f"Not emulated here: {lines}")

    def _refused(self, namespace: str, name: str, message: str) -> None:
        # Only root may listen on its port. Pods have variables that name the API server itself, and
        # no user could do anything about the event.
        if (namespace, name) == ("default", "kubernetes"):
            return
        service = self._services.store.get(namespace, name)
        if service is not None:
            self._record_event(service, message)

    def _record_event(self, service: AnyObject, message: str) -> None:
        reference = {
            "apiVersion": "v1",
            "kind": "Service",
            "namespace": service.metadata.namespace,
            "name": service.metadata.name,
            "uid": service.metadata.uid,
        }
        self._events.event(reference, "Warning", "NotEmulated", message)
