"""The state that all pods of the node share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from traincrew.engine.client import Client
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject
    from traincrew.local.images import ImageStore
    from traincrew.local.node.machine.capabilities import Capabilities
    from traincrew.local.node.machine.cdi import Registry
    from traincrew.local.node.machine.gpus import GpuAllocator
    from traincrew.local.node.machine.imageusers import ImageUsers
    from traincrew.local.node.machine.isolation import Isolation
    from traincrew.local.node.machine.paths import Paths
    from traincrew.local.node.machine.specs import PodOptions
    from traincrew.local.node.network.addresses import PodAddresses
    from traincrew.local.node.network.dns_server import DnsServer
    from traincrew.local.node.network.hostports import HostPorts
    from traincrew.local.node.network.hosts import HostsFiles
    from traincrew.local.node.runtime.forkserver import ForkServer
    from traincrew.local.node.runtime.memory import MemoryWatch
    from traincrew.local.node.runtime.usage import UsageMeter
    from traincrew.local.node.runtime.written import WrittenFiles
    from traincrew.local.node.sources import SourceWatch

__all__ = ["Context"]


@dataclass(frozen=True, kw_only=True)
class Context:
    """The state that all pods of the node share once it has started.

    Attributes:
        host_ip: address of all virtual nodes.
        kubeconfig: the administrator's kubeconfig of a namespace, as a document.
        secrets: returns paths of the machine that no container may see.
        api_port: port of the API server on 127.0.0.1, with TLS; 0 for none.
        pod_options: what is added to every pod.
        services: all Services, for the variables of containers.
        allocatable: allocatable resources of each virtual node, by its name.
        on_progress: called with (image, line) while an image is pulled.
        kubectl: the program that pods get in addition to their image.
    """

    client: Client
    events: EventRecorder
    images: ImageStore
    paths: Paths
    fork_server: ForkServer
    capabilities: Capabilities
    isolation: Isolation
    addresses: PodAddresses
    hosts: HostsFiles
    host_ports: HostPorts
    dns: DnsServer | None
    gpus: GpuAllocator
    cdi: Registry
    image_users: ImageUsers
    memory: MemoryWatch
    usage: UsageMeter
    sources: SourceWatch
    written: WrittenFiles
    host_ip: str
    kubeconfig: Callable[[str], dict[str, Any]]
    secrets: Callable[[], list[Path]]
    api_port: int
    pod_options: PodOptions
    services: Callable[[], Iterable[AnyObject]]
    allocatable: Mapping[str, Mapping[str, str]]
    on_progress: Callable[[str, str], None] | None
    kubectl: Path | None
