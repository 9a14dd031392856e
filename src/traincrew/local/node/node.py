"""The kubelet of the embedded cluster: one for all its virtual nodes."""
# Over 400 lines: the node's parts are built, started and ended in one place.

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from traincrew.engine.observability import get_logger
from traincrew.local.credentials import aliases
from traincrew.local.directories import discard_tree, private_directory
from traincrew.local.node.backend import Backend
from traincrew.local.node.cleanup import Cleanup
from traincrew.local.node.context import Context
from traincrew.local.node.deletions import Deletions
from traincrew.local.node.fields.references import Reference
from traincrew.local.node.informers import NodeInformers
from traincrew.local.node.machine import cdi
from traincrew.local.node.machine.capabilities import (
    Capabilities,
    NamespacesUnavailableError,
    capabilities_from,
)
from traincrew.local.node.machine.gpus import GpuAllocator, machine_gpus
from traincrew.local.node.machine.imageusers import ImageUsers
from traincrew.local.node.machine.isolation import Isolation
from traincrew.local.node.machine.loopback import LOOPBACK
from traincrew.local.node.machine.paths import Paths
from traincrew.local.node.machine.specs import PodOptions
from traincrew.local.node.network.addresses import PodAddresses
from traincrew.local.node.network.dns_server import DNS_PORT, DnsServer
from traincrew.local.node.network.hostports import HostPorts
from traincrew.local.node.network.hosts import HostsFiles
from traincrew.local.node.network.resolvconf_mount import machine_resolver
from traincrew.local.node.pods.pod import Pod
from traincrew.local.node.records.nodeobjects import (
    NodeObjects,
    machine_resources,
    node_resources,
)
from traincrew.local.node.runtime.forkserver import ForkServer
from traincrew.local.node.runtime.memory import MemoryWatch
from traincrew.local.node.runtime.usage import UsageMeter
from traincrew.local.node.runtime.written import Written, WrittenFiles
from traincrew.local.node.services import Services
from traincrew.local.node.sources import SourceWatch
from traincrew.local.node.volumes.claims import ClaimContents, measure, volume_claim_directory
from traincrew.local.node.volumes.shared_memory import ClaimedDirectory, claim_directory, sweep
from traincrew.local.node.waiting import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from traincrew.engine.client import Client
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject, MetadataOnly
    from traincrew.local.images import ImageStore
    from traincrew.local.node.machine.specs import NodeSpec
    from traincrew.local.node.records.views import BoundPod

__all__ = ["Node"]

_NAMES_RETRY_SECONDS = 5.0


class Node:
    """Runs the pods bound to its virtual nodes as processes of this machine.

    Args:
        client: The API server.
        images: Resolves image names to environments.
        state: Directory of everything that outlives the node; created if missing, mode 0700.
        nodes: The virtual nodes; at least one.
        kubeconfig: The administrator's kubeconfig of a namespace, as a document.
        secrets: Returns further paths of the machine that no container may see, such as keys. They
            are hidden where pods have a file system of their own. `state` always is.
        api_port: Port of the API server on 127.0.0.1, with TLS; 0 for none.
        events: Records events.
        sandbox: `auto` uses what this machine allows; `namespaces` requires namespaces; `bare`
            uses none.
        pods: Options that apply to every pod.
        survive: Pods continue when this process ends without `stop`, to be adopted by the next
            one. Otherwise they end with it, however it ends.
        on_progress: Called with (image, line) while an image is pulled.
        device_specifications: Directories with specifications of the Container Device Interface.
    """

    def __init__(
        self,
        client: Client,
        images: ImageStore,
        state: Path,
        *,
        nodes: Sequence[NodeSpec],
        kubeconfig: Callable[[str], dict[str, Any]],
        secrets: Callable[[], Iterable[Path]] = tuple,
        api_port: int = 0,
        events: EventRecorder,
        sandbox: Literal["auto", "namespaces", "bare"] = "auto",
        pods: PodOptions | None = None,
        survive: bool = True,
        on_progress: Callable[[str, str], None] | None = None,
        device_specifications: Sequence[Path] = cdi.DIRECTORIES,
    ) -> None:
        if not nodes:
            raise ValueError("a node needs at least one NodeSpec")
        state = state.absolute()
        machine = machine_resources()
        self._resources = [(spec, node_resources(spec, machine)) for spec in nodes]
        self._client = client
        self._images = images
        self._events = events
        self._kubeconfig = kubeconfig
        self._secrets = secrets
        self._api_port = api_port
        self._sandbox = sandbox
        self._options = pods or PodOptions()
        self._on_progress = on_progress
        self._paths = Paths(state)
        self._memory: ClaimedDirectory | None = None
        self._gpus = GpuAllocator(nodes, machine_gpus())
        self._cdi = cdi.Registry(device_specifications)
        self._addresses = PodAddresses(state)
        self._fork_server = ForkServer(state, together=not survive)
        self._hosts = HostsFiles(self._paths.hosts)
        self._dns: DnsServer | None = None
        self._sources = SourceWatch()
        self._written = WrittenFiles()
        self._informers = NodeInformers(client)
        self._host_ports = HostPorts()
        self._services = Services(self._informers, self._hosts, self._host_ports, events)
        self._deletions = Deletions(client)
        self._cleanup = Cleanup(
            client, self._paths, self._written, collecting=bool(self._options.collect)
        )
        self._context: Context | None = None
        self._objects: NodeObjects | None = None
        self._pods: dict[str, Pod] = {}
        self._ending: set[Pod] = set()
        """Pods that are gone from the API, but still run."""
        self._pod_removed = asyncio.Event()
        self._stopped = False
        self._meter = UsageMeter()
        self.backend = Backend(self._paths, lambda: self._fork_server, self._meter)
        self._log = get_logger(component="node")

    @property
    def capabilities(self) -> Capabilities:
        """The isolation of pods; known after `start`."""
        return self._started.capabilities

    @property
    def _started(self) -> Context:
        assert self._context is not None, "the node has not been started"
        return self._context

    async def start(self) -> None:
        """Detect the capabilities of this machine and register the nodes.

        Raises:
            NamespacesUnavailableError: They do not work here, and `sandbox` requires them.
            NetworksTakenError: Others hold all networks for pods.
            OSError: The state directory cannot be used.
            ApiError: The API server rejects the registration.
        """
        try:
            await self._start()
        except BaseException:
            await self._close()
            raise

    async def _start(self) -> None:
        private_directory(self._paths.state)
        for directory in (self._paths.pods, self._paths.root, self._paths.hosts):
            directory.mkdir(exist_ok=True)
        self._memory = claim_directory(self._paths.state)
        self._paths.memory = self._memory.path
        await in_thread(sweep)
        self._fork_server.start()
        self._addresses.open()
        capabilities = await self._capabilities()
        if capabilities.namespaces and self._addresses.dns_server:
            await self._start_dns()
        self._host_ports.own = capabilities.own_ports
        self._meter.namespaces = capabilities.namespaces
        self._context = self._context_of(capabilities)
        state = self._paths.state
        self._objects = NodeObjects(self._client, self._resources, capabilities, LOOPBACK, state)
        await self._objects.register()
        self._log.info("node started", mode=capabilities.mode, reason=capabilities.reason)

    def _context_of(self, capabilities: Capabilities) -> Context:
        """Return the state that pods share, for these capabilities."""
        return Context(
            client=self._client,
            events=self._events,
            images=self._images,
            paths=self._paths,
            fork_server=self._fork_server,
            capabilities=capabilities,
            isolation=Isolation(
                namespaces=capabilities.namespaces,
                root=os.geteuid() == 0 and not capabilities.user_namespace,
                uid=os.geteuid(),
                gid=os.getegid(),
                memory=sys.platform == "linux",
                shared_ports=capabilities.why_no_own_ports,
            ),
            addresses=self._addresses,
            hosts=self._hosts,
            host_ports=self._host_ports,
            dns=self._dns,
            gpus=self._gpus,
            cdi=self._cdi,
            image_users=ImageUsers(),
            memory=MemoryWatch(namespaces=capabilities.namespaces),
            usage=self._meter,
            sources=self._sources,
            host_ip=LOOPBACK,
            kubeconfig=self._kubeconfig,
            secrets=self._hidden,
            api_port=self._api_port,
            pod_options=self._options,
            written=self._written,
            services=self._informers.services.store.list,
            allocatable={spec.name: resources for spec, resources in self._resources},
            on_progress=self._on_progress,
            kubectl=_find_kubectl(),
        )

    def _hidden(self) -> list[Path]:
        """Return the paths that no container may see, without links and without inner ones."""
        paths = {path.resolve() for path in (self._paths.state, *self._secrets())}
        with suppress(OSError):
            mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
            paths |= set(map(Path, aliases(tuple(map(str, sorted(paths))), mounts)))
        return sorted(path for path in paths if paths.isdisjoint(path.parents))

    async def _start_dns(self) -> None:
        """Serve DNS on port 53, or on the previous port, which running pods use."""
        port_file = self._paths.state / "dns-port"
        try:
            previous = int(port_file.read_text())
        except (OSError, ValueError):
            previous = 0
        server = DnsServer(
            self._addresses.dns_server,
            self._services.names.zone,
            lambda: machine_resolver().servers,
            self._services.wait_synced,
        )
        try:
            await server.start(DNS_PORT, previous, 0)
        except OSError as error:
            self._log.warning("no DNS server for pods", error=str(error))
            return
        port_file.write_text(str(server.port))
        self._dns = server

    async def _capabilities(self) -> Capabilities:
        answer = await self._fork_server.check(self._paths.state)
        found = capabilities_from(answer)
        if self._sandbox == "bare":
            return Capabilities(
                namespaces=False, addresses=found.addresses, reason="bare mode was asked for"
            )
        if self._sandbox == "namespaces" and not found.namespaces:
            raise NamespacesUnavailableError(found.refusal())
        return found

    async def run(self) -> None:
        """Run pods until cancelled."""
        informers = self._informers
        informers.pods.add_handler(self._on_pod)
        informers.claims.add_handler(self._on_claim)
        for informer, kind in ((informers.config_maps, "ConfigMap"), (informers.secrets, "Secret")):
            informer.add_handler(self._source_handler(kind))
        self._services.follow()
        assert self._objects is not None
        async with asyncio.TaskGroup() as group:
            for each in informers.all():
                group.create_task(each.run())
            group.create_task(self._objects.run())
            group.create_task(self._started.memory.run())
            group.create_task(self._services.run())
            group.create_task(self._remove_orphans())
            group.create_task(self._keep_names())

    async def _keep_names(self) -> None:
        """Write the hosts files again that a full disk has kept from being written."""
        while True:
            await asyncio.sleep(_NAMES_RETRY_SECONDS)
            if self._hosts.is_outdated and not self._stopped:
                self._hosts.update()

    async def wait_synced(self) -> None:
        """Wait until the caches of all informers are synced."""
        await asyncio.gather(*(each.wait_synced() for each in self._informers.all()))

    def written(self) -> list[Written]:
        """Return what ended containers wrote outside of volumes, if that is reported."""
        return self._written.all()

    async def claim_contents(self) -> list[ClaimContents]:
        """Return the contents of the PersistentVolumeClaims; works after `stop`, too."""
        contents = []
        for claim in self._informers.claims.store.list():
            metadata = claim.metadata
            namespace, name = metadata.namespace, metadata.name
            directory = volume_claim_directory(
                self._paths.claims, self._options, namespace, name, metadata.uid
            )
            if claim.spec.get("volumeName") and not directory.exists():
                continue  # its volume is a path of the machine, where its files stay
            counts = await asyncio.to_thread(measure, directory)
            contents.append(ClaimContents(namespace, name, directory, *counts))
        return contents

    async def stop(self, kill: bool) -> None:
        """Stop managing pods; has no effect when called again.

        Args:
            kill: Kill all pods at once and delete their files; otherwise they continue, to be
                adopted by the next start.
        """
        if self._stopped:
            return
        self._stopped = True
        await asyncio.gather(*(pod.detach() for pod in self._pods.values()))
        await self._fork_server.settle()
        await self._deletions.cancel()
        await self._services.close()
        if kill:
            await self._cleanup.remove_everything()
        await self._close()

    async def _close(self) -> None:
        if self._dns is not None:
            await self._dns.close()
        self._fork_server.close()
        self._addresses.close()
        if self._memory is not None:
            self._memory.close()

    # -- handlers of changes -----------------------------------------------------------------------

    def _on_pod(self, old: BoundPod | None, new: BoundPod | None) -> None:
        if self._stopped:
            return
        if new is None:
            if old is not None and old.uid in self._pods:
                removal = partial(self._remove_pod, old.uid)
                self._deletions.follow(self._informers.pods, old.metadata, removal)
            return
        context = self._started
        if new.spec.get("nodeName") not in context.allocatable:
            return
        pod = self._pods.get(new.uid)
        if pod is not None:
            pod.update(new)
            return
        self._pods[new.uid] = pod = Pod(context, new)
        pod.start()

    async def _remove_pod(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._ending.add(pod)
            try:
                await pod.remove()
            finally:
                self._ending.discard(pod)
                self._pod_removed.set()

    def _on_claim(self, old: AnyObject | None, new: AnyObject | None) -> None:
        kept = self._options.claims is not None
        if new is None and old is not None and not kept:
            path = self._paths.claims / old.metadata.namespace / old.metadata.uid
            removal = partial(self._remove_claim, path)
            self._deletions.follow(self._informers.claims, old.metadata, removal)

    async def _remove_claim(self, directory: Path) -> None:
        """Delete the directory of a claim once no pod shows it.

        The claim's finalizer keeps it that long, but anybody may remove that.
        """
        while any(pod.shows(directory) for pod in (*self._pods.values(), *self._ending)):
            self._pod_removed.clear()
            await self._pod_removed.wait()
        await in_thread(discard_tree, directory)

    def _source_handler(
        self, kind: str
    ) -> Callable[[MetadataOnly | None, MetadataOnly | None], None]:
        def changed(old: MetadataOnly | None, new: MetadataOnly | None) -> None:
            obj = new or old
            if obj is not None:
                self._sources.changed(obj.metadata.namespace, Reference(kind, obj.metadata.name))

        return changed

    async def _remove_orphans(self) -> None:
        await self.wait_synced()
        if self._stopped:
            return
        self._hosts.settle()
        await self._cleanup.remove_orphans(self._pods)


def _find_kubectl() -> Path | None:
    """Find the kubectl that is added to pods: this environment's, else the user's."""
    bundled = Path(sys.prefix) / "bin" / "kubectl"
    found = str(bundled) if bundled.exists() else shutil.which("kubectl")
    return Path(found).resolve() if found else None
