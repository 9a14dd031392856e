"""The mount of a pod's `/etc/resolv.conf`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from traincrew.local.node.network.dns_server import DNS_PORT
from traincrew.local.node.network.resolvconf import Resolver, pod_resolver
from traincrew.local.node.runtime.processes import Mount

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.local.node.network.dns_server import DnsServer
    from traincrew.local.node.runtime.processes import OwnPorts

__all__ = ["can_reach", "machine_resolver", "resolver_file", "resolver_mounts"]

_FILE = Path("/etc/resolv.conf")


def machine_resolver() -> Resolver:
    """Read the machine's resolv.conf, which changes with its networks."""
    try:
        return Resolver.parse(_FILE.read_text(errors="replace"))
    except OSError:
        return Resolver()


def can_reach(server: DnsServer | None, *, redirected: bool) -> bool:
    """Return whether a pod can query the cluster's DNS server.

    Args:
        server: The server, if there is one.
        redirected: Whether the pod's connections to port 53 are redirected to the server's port.
    """
    return server is not None and (server.port == DNS_PORT or (redirected and server.port != 0))


def resolver_mounts(
    spec: Mapping[str, Any], namespace: str, own_ports: OwnPorts | None, server: DnsServer | None
) -> list[Mount]:
    """Return the mount of the file; none where the machine's own file is used.

    Args:
        spec: The pod's spec.
        namespace: The pod's namespace.
        own_ports: The pod's own ports, if any; they redirect port 53 to the DNS server's port.
        server: The cluster's DNS server, if there is one.
    """
    address = ""
    if server is not None and can_reach(server, redirected=own_ports is not None):
        address = server.address
    resolver = pod_resolver(spec, namespace, address, machine_resolver())
    return [] if resolver is None else [Mount("file", str(_FILE), content=resolver.text())]


def resolver_file() -> list[Mount]:
    """Return the mount of the machine's own file, for a root that does not have it."""
    if not _FILE.exists():
        return []
    return [Mount("bind", str(_FILE), str(_FILE.resolve()), read_only=True)]
