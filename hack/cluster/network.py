"""The cluster's network: a namespace for each of its machines, joined by a bridge.

::

    host ── link ── [control plane: bridge 10.B.0.1] ── link ── [node-1: 10.B.0.11]
                                                     └─ link ── [node-2: 10.B.0.12]

``B`` differs between clusters of one host. Pods of node ``i`` get addresses of ``10.B.i.0/24``,
routed by their node. Everything inside, also packet filters, ends with its namespace.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

NAMESPACES = Path("/run/netns")
# Second octets of the networks of clusters 0, 1, 2 …
FIRST_OCTET_OF_CLUSTERS = 200
MOST_CLUSTERS = 50


@dataclass(frozen=True)
class Network:
    """The addresses and names of a cluster, derived from its name and number."""

    name: str
    number: int

    @property
    def prefix(self) -> str:
        """The first two octets of all addresses."""
        return f"10.{FIRST_OCTET_OF_CLUSTERS + self.number}"

    @property
    def address(self) -> str:
        """The control plane's address, the same for the host, the nodes and the pods."""
        return f"{self.prefix}.0.1"

    @property
    def control_plane(self) -> str:
        """The control plane's namespace."""
        return f"traincrew-{self.name}"

    @property
    def service_range(self) -> str:
        """Addresses of Services; only the nodes' packet filters know them."""
        return f"{self.prefix}.128.0/20"

    @property
    def pod_range(self) -> str:
        """Addresses of pods of all nodes."""
        return f"{self.prefix}.0.0/17"

    def node(self, index: int) -> str:
        """Return the namespace of a node; nodes are numbered from 1."""
        return f"traincrew-{self.name}-node-{index}"

    def node_address(self, index: int) -> str:
        """Return the address of a node."""
        return f"{self.prefix}.0.{10 + index}"

    def pods_of(self, index: int) -> str:
        """Return the addresses of the pods of a node."""
        return f"{self.prefix}.{index}.0/24"

    # -- changes ---------------------------------------------------------------------------

    def create(self) -> None:
        """Create the control plane's namespace and the host's link into it."""
        space = self.control_plane
        self.remove(0)
        _ip("netns", "add", space)
        _ip("-n", space, "link", "set", "lo", "up")
        _ip("-n", space, "link", "add", "nodes", "type", "bridge")
        _ip("-n", space, "addr", "add", f"{self.address}/24", "dev", "nodes")
        _ip("-n", space, "link", "set", "nodes", "up")
        host = self._host_link
        _ip("link", "add", host, "type", "veth", "peer", "name", "host", "netns", space)
        _ip("-n", space, "link", "set", "host", "master", "nodes", "up")
        _ip("addr", "add", f"{self.prefix}.0.254/24", "dev", host)
        _ip("link", "set", host, "up")

    def create_node(self, index: int, nodes: int) -> None:
        """Create a node's namespace, its link and its routes to the pods of all other nodes."""
        space, inside = self.node(index), f"node-{index}"
        _ip("netns", "add", space)
        _ip("-n", space, "link", "set", "lo", "up")
        _ip("-n", self.control_plane, "link", "add", inside, "type", "veth",
            "peer", "name", "eth0", "netns", space)  # fmt: skip
        _ip("-n", self.control_plane, "link", "set", inside, "master", "nodes", "up")
        _ip("-n", space, "addr", "add", f"{self.node_address(index)}/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")
        _ip("-n", space, "route", "add", "default", "via", self.address)
        for other in range(1, nodes + 1):
            if other != index:
                _ip("-n", space, "route", "add", self.pods_of(other), "via",
                    self.node_address(other))  # fmt: skip
        # The control plane reaches pods (DNS, the API server) through their node.
        _ip("-n", self.control_plane, "route", "add", self.pods_of(index), "via",
            self.node_address(index))  # fmt: skip
        run_in(space, ["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])

    def cut(self, index: int) -> None:
        """Disconnect a node: it keeps running, but cannot be reached."""
        _ip("-n", self.control_plane, "link", "set", f"node-{index}", "down")

    def mend(self, index: int) -> None:
        """Reconnect a node."""
        _ip("-n", self.control_plane, "link", "set", f"node-{index}", "up")

    def remove(self, nodes: int) -> None:
        """Remove whatever exists; nothing may run in it any more."""
        spaces = [self.node(index) for index in range(1, nodes + 1)]
        for space in [*spaces, self.control_plane]:
            if (NAMESPACES / space).exists():
                _ip("netns", "del", space)
        subprocess.run(["ip", "link", "del", self._host_link], capture_output=True, check=False)

    @property
    def _host_link(self) -> str:
        return f"traincrew{self.number}"


def inside(namespace: str, command: list[str]) -> list[str]:
    """Return the command line that runs a command in a network namespace.

    Not ``ip netns exec``, which also creates a mount namespace: the kubelet's mounts would be
    hidden from the container runtime.
    """
    return ["nsenter", f"--net={NAMESPACES / namespace}", "--", *command]


def run_in(namespace: str, command: list[str]) -> None:
    """Run a command in a network namespace and wait for it.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    subprocess.run(inside(namespace, command), check=True, capture_output=True)


def _ip(*arguments: str) -> None:
    result = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise OSError(f"`ip {' '.join(arguments)}`: {result.stderr.strip()}")
