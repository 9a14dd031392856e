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
    from traincrew.local.node.network.hostports import HostPorts
    from traincrew.local.node.network.hosts import HostsFiles
    from traincrew.local.node.network.serviceproxy import Served
    from traincrew.local.node.records.views import BoundPod

__all__ = ["Services"]


class Services:
    """Keeps DNS, hosts files and proxy in line with the Services of the API.

    Args:
        informers: The caches of Services and EndpointSlices.
        hosts: The hosts files of pods.
        host_ports: The host ports of pods, which are served as well.
        events: Records an event about fields without effect.

    Attributes:
        names: The names that the DNS server resolves.
    """

    def __init__(
        self,
        informers: NodeInformers,
        hosts: HostsFiles,
        host_ports: HostPorts,
        events: EventRecorder,
    ) -> None:
        self._services, self._slices = informers.services, informers.slices
        self._pods = informers.pods
        self._host_ports = host_ports
        self._hosts = hosts
        self._events = events
        self._proxy = ServiceProxy(self._refused)
        self._changed = asyncio.Event()
        host_ports.changed = self._changed.set
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
            reserved = self._host_ports.reserved()
            await self._proxy.serve(
                self._host_ports.listeners()
                | {
                    listener: served
                    for listener, served in listeners(services, slices).items()
                    if listener.port not in reserved
                }
            )

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

    def _refused(self, served: Served, message: str) -> None:
        namespace, name = served.namespace, served.name
        if served.kind == "Pod":
            pod = self._pods.store.get(namespace, name)
            if pod is not None:
                self._record_event(pod, message, "Pod")
            return
        # Only root may listen on its port. Pods have variables that name the API server itself, and
        # no user could do anything about the event.
        if (namespace, name) == ("default", "kubernetes"):
            return
        service = self._services.store.get(namespace, name)
        if service is not None:
            self._record_event(service, message)

    def _record_event(
        self, about: AnyObject | BoundPod, message: str, kind: str = "Service"
    ) -> None:
        reference = {
            "apiVersion": "v1",
            "kind": kind,
            "namespace": about.metadata.namespace,
            "name": about.metadata.name,
            "uid": about.metadata.uid,
        }
        self._events.event(reference, "Warning", "NotEmulated", message)
