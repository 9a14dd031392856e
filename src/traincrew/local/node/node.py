"""The kubelet of the embedded cluster: one for all its virtual nodes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from traincrew.engine.informer import Informer
from traincrew.engine.logs import get_logger
from traincrew.engine.objects import MetadataOnly
from traincrew.engine.resources import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
)
from traincrew.local.node.addresses import LOOPBACK, PodAddresses
from traincrew.local.node.backend import Backend
from traincrew.local.node.bare import remove_links
from traincrew.local.node.capabilities import Capabilities, capabilities_from
from traincrew.local.node.context import Context, Paths, SourceWatch, find_kubectl
from traincrew.local.node.gpus import GpuAllocator
from traincrew.local.node.hosts import HostsFiles, service_names
from traincrew.local.node.instances import Instance, instances_of
from traincrew.local.node.launcher import ForkServer
from traincrew.local.node.memory import MemoryWatch
from traincrew.local.node.nodeobjects import NodeObjects, machine_resources, node_resources
from traincrew.local.node.pod import Pod
from traincrew.local.node.references import Reference
from traincrew.local.node.serviceproxy import ServiceProxy, listeners
from traincrew.local.node.threads import in_thread
from traincrew.local.node.unsupported import Isolation, unsupported_service
from traincrew.local.node.views import PodView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traincrew.engine.client import Client
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject
    from traincrew.local.images import ImageStore
    from traincrew.local.node.specs import NodeSpec

__all__ = ["Node"]

_MEMORY = Path("/dev/shm")  # noqa: S108  # a directory of its own is made in it, mode 0700
_KILL_SECONDS = 10.0


class Node:
    """Runs the pods bound to its virtual nodes as processes of this machine.

    Args:
        client: The API server.
        images: What image names stand for.
        state: Directory for everything that has to outlive the node; made if missing, mode 0700.
        nodes: The virtual nodes; at least one.
        kubeconfig: The kubeconfig of a namespace, as a document.
        secure_port: Where the API server listens with TLS on 127.0.0.1; 0 if nowhere.
        events: Where events are recorded.
        sandbox: `auto` finds out what this machine allows; `namespaces` insists; `bare` does
            without.
        survive: Pods go on when this process ends without `stop`, to be found by the next one.
            Otherwise they end with it, however it ends.
        on_progress: Called with (image, line) while an image is pulled.
    """

    def __init__(
        self,
        client: Client,
        images: ImageStore,
        state: Path,
        *,
        nodes: Sequence[NodeSpec],
        kubeconfig: Callable[[str], dict[str, Any]],
        secure_port: int = 0,
        events: EventRecorder,
        sandbox: Literal["auto", "namespaces", "bare"] = "auto",
        survive: bool = True,
        on_progress: Callable[[str, str], None] | None = None,
    ) -> None:
        if not nodes:
            raise ValueError("a node needs at least one NodeSpec")
        self._nodes = tuple(nodes)
        self._sandbox = sandbox
        state = state.absolute()
        name = hashlib.sha256(os.fsencode(state)).hexdigest()[:16]
        in_memory = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)
        memory = _MEMORY / f"traincrew-{name}" if in_memory else state / "memory"
        self._paths = Paths(state, memory)
        machine = machine_resources()
        self._resources = [(spec, node_resources(spec, machine)) for spec in nodes]
        self._context = context = Context()
        context.client = client
        context.images = images
        context.events = events
        context.kubeconfig = kubeconfig
        context.secure_port = secure_port
        context.on_progress = on_progress
        context.paths = self._paths
        context.sources = SourceWatch()
        context.gpus = GpuAllocator(nodes)
        context.addresses = PodAddresses(state)
        context.hosts = HostsFiles(self._paths.hosts)
        context.host_ip = LOOPBACK
        context.allocatable = {spec.name: resources for spec, resources in self._resources}
        context.kubectl = find_kubectl()
        context.fork_server = ForkServer(state, together=not survive)
        self._informers = _Informers(client)
        context.services = self._informers.services.store.list
        self._proxy = ServiceProxy(self._refused)
        self._services_changed = asyncio.Event()
        self._pods: dict[str, Pod] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self._objects: NodeObjects | None = None
        self._stopped = False
        self.backend = Backend(self._paths, lambda: context.fork_server)
        self._log = get_logger(component="node")

    @property
    def capabilities(self) -> Capabilities:
        """What pods have here; known after `start`."""
        return self._context.capabilities

    async def start(self) -> None:
        """Find out what works here and register the nodes.

        Raises:
            OSError: The state directory cannot be used, or the wanted sandbox does not work.
            ApiError: The API server refuses.
        """
        try:
            await self._start()
        except BaseException:
            self._context.fork_server.close()
            self._context.addresses.close()
            raise

    async def _start(self) -> None:
        context = self._context
        for directory in (self._paths.state, self._paths.memory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in (self._paths.pods, self._paths.root, self._paths.hosts):
            directory.mkdir(exist_ok=True)
        await in_thread(self._paths.sweep_memory)
        context.fork_server.start()
        context.addresses.open()
        context.capabilities = capabilities = await self._capabilities()
        context.isolation = Isolation(
            namespaces=capabilities.namespaces,
            root=os.geteuid() == 0 and not capabilities.user_namespace,
            uid=os.geteuid(),
            gid=os.getegid(),
            memory=sys.platform == "linux",
        )
        context.memory = MemoryWatch(namespaces=capabilities.namespaces)
        self._objects = NodeObjects(context.client, self._resources, capabilities, context.host_ip)
        await self._objects.register()
        self._log.info("node started", mode=capabilities.mode, reason=capabilities.reason)

    async def _capabilities(self) -> Capabilities:
        answer = await self._context.fork_server.check(self._paths.state)
        found = capabilities_from(answer)
        if self._sandbox == "bare":
            return Capabilities(
                namespaces=False, addresses=found.addresses, reason="bare mode was asked for"
            )
        if self._sandbox == "namespaces" and not found.namespaces:
            raise OSError(f"sandbox: namespaces do not work on this machine: {found.reason}")
        return found

    async def run(self) -> None:
        """Run pods until cancelled."""
        informers = self._informers
        informers.pods.add_handler(self._on_pod)
        informers.claims.add_handler(self._on_claim)
        for informer, kind in ((informers.config_maps, "ConfigMap"), (informers.secrets, "Secret")):
            informer.add_handler(self._source_handler(kind))
        informers.services.add_handler(self._on_service)
        for services in (informers.services, informers.slices):
            services.add_handler(lambda *_: self._services_changed.set())
        assert self._objects is not None
        async with asyncio.TaskGroup() as group:
            for each in informers.all():
                group.create_task(each.run())
            group.create_task(self._objects.run())
            group.create_task(self._context.memory.run())
            group.create_task(self._follow_services())
            group.create_task(self._remove_orphans())

    async def wait_synced(self) -> None:
        """Wait until all pods are known."""
        await asyncio.gather(*(each.wait_synced() for each in self._informers.all()))

    async def stop(self, kill: bool) -> None:
        """Stop looking after pods.

        Args:
            kill: End all of them, at once, and delete what they left; otherwise they go on for
                the next start to find.
        """
        self._stopped = True
        await asyncio.gather(*(pod.detach() for pod in self._pods.values()))
        await self._context.fork_server.settle()
        for task in list(self._removals):
            task.cancel()
        await asyncio.gather(*self._removals, return_exceptions=True)
        await self._proxy.close()
        if kill:
            await self._kill_everything()
        self._context.fork_server.close()
        self._context.addresses.close()

    # -- what changes --------------------------------------------------------------------------

    def _on_pod(self, old: PodView | None, new: PodView | None) -> None:
        if self._stopped:
            return
        if new is None:
            if old is not None and (gone := self._pods.pop(old.uid, None)) is not None:
                self._spawn(gone.remove())
            return
        if new.spec.get("nodeName") not in self._context.allocatable:
            return
        pod = self._pods.get(new.uid)
        if pod is not None:
            pod.update(new)
            return
        self._pods[new.uid] = pod = Pod(self._context, new)
        pod.start()

    def _on_claim(self, old: MetadataOnly | None, new: MetadataOnly | None) -> None:
        if new is None and old is not None:
            path = self._paths.claims / old.metadata.namespace / old.metadata.uid
            self._spawn(in_thread(shutil.rmtree, path, ignore_errors=True))

    def _on_service(self, old: AnyObject | None, new: AnyObject | None) -> None:
        known = self._informers.services.delivering_list
        if new is None or known or (old is not None and old.spec == new.spec):
            return
        if found := unsupported_service(new.spec):
            lines = "; ".join(f"{each.field}: {each.why}" for each in found)
            self._tell_service(new, f"Not emulated here: {lines}")

    def _source_handler(
        self, kind: str
    ) -> Callable[[MetadataOnly | None, MetadataOnly | None], None]:
        def changed(old: MetadataOnly | None, new: MetadataOnly | None) -> None:
            obj = new or old
            if obj is not None:
                reference = Reference(kind, obj.metadata.name)
                self._context.sources.changed(obj.metadata.namespace, reference)

        return changed

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _follow_services(self) -> None:
        """Keep names and addresses of Services as the API says."""
        while True:
            await self._services_changed.wait()
            self._services_changed.clear()
            services = self._informers.services.store.list()
            slices = self._informers.slices.store.list()
            self._context.hosts.set_services(service_names(services, slices))
            await self._proxy.serve(listeners(services, slices))

    def _refused(self, namespace: str, name: str, message: str) -> None:
        # Only an administrator may listen on its ports. Pods have variables that lead to the API
        # server itself, and it is nobody's who could do something about it.
        if (namespace, name) == ("default", "kubernetes"):
            return
        service = self._informers.services.store.get(namespace, name)
        if service is not None:
            self._tell_service(service, message)

    def _tell_service(self, service: AnyObject, message: str) -> None:
        reference = {
            "apiVersion": "v1",
            "kind": "Service",
            "namespace": service.metadata.namespace,
            "name": service.metadata.name,
            "uid": service.metadata.uid,
        }
        self._context.events.event(reference, "Warning", "NotEmulated", message)

    # -- leaving nothing behind --------------------------------------------------------------------

    async def _remove_orphans(self) -> None:
        """End what belongs to pods that were deleted while no node was there."""
        await self.wait_synced()
        self._context.hosts.settle()
        for directory in list(self._paths.pods.iterdir()):
            if directory.name not in self._pods:
                await self._kill(self._instances(directory.name))
                await in_thread(self._paths.remove_pod, directory.name)

    def _instances(self, uid: str) -> list[Instance]:
        containers = self._paths.containers(uid)
        if not containers.is_dir():
            return []
        return [each for name in containers.iterdir() for each in instances_of(name)]

    async def _kill(self, instances: list[Instance]) -> None:
        for instance in instances:
            if instance.processes() is None:
                instance.abandon()
            instance.kill()
        ends = [asyncio.ensure_future(instance.wait()) for instance in instances]
        if ends:
            _, late = await asyncio.wait(ends, timeout=_KILL_SECONDS)
            for instance in instances if late else ():
                instance.kill_shim()
            for end in late:
                end.cancel()
        for instance in instances:
            try:
                remove_links(instance.launch().links)
            except OSError:
                continue

    async def _kill_everything(self) -> None:
        if self._paths.pods.is_dir():
            uids = [directory.name for directory in self._paths.pods.iterdir()]
            await self._kill([each for uid in uids for each in self._instances(uid)])
        for directory in (self._paths.pods, self._paths.hosts, self._paths.memory):
            await in_thread(shutil.rmtree, directory, ignore_errors=True)


class _Informers:
    """The node's view of the API."""

    def __init__(self, client: Client) -> None:
        self.pods = Informer(client, PODS, PodView)
        self.services = Informer(client, SERVICES)
        self.slices = Informer(client, ENDPOINT_SLICES)
        self.config_maps = Informer(client, CONFIG_MAPS, MetadataOnly, metadata_only=True)
        self.secrets = Informer(client, SECRETS, MetadataOnly, metadata_only=True)
        self.claims = Informer(client, PERSISTENT_VOLUME_CLAIMS, MetadataOnly, metadata_only=True)

    def all(self) -> list[Informer[Any]]:
        """All of them."""
        return [
            self.pods,
            self.services,
            self.slices,
            self.config_maps,
            self.secrets,
            self.claims,
        ]
