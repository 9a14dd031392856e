"""Host ports: ports of a pod that are served on the machine's localhost as well. Pure.

A pod with `hostNetwork` has its node's address instead of one of its own, and the API makes all of
its `containerPort`s host ports. Programs of the machine reach them on localhost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.local.node.machine.loopback import LOOPBACK
from traincrew.local.node.network.serviceproxy import Backend, Listener, Served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from traincrew.engine.objects import AnyObject

__all__ = ["HostPort", "HostPorts", "PodPorts", "is_served", "taken_ports"]

Document = dict[str, Any]
_WILDCARDS = ("", "0.0.0.0")  # noqa: S104 - how manifests say "every address"


class HostPort(Struct, frozen=True):
    """A host port: it is served on an address of the machine, and leads to a port of the pod."""

    address: str
    number: int
    target: int


class PodPorts(Struct, frozen=True):
    """The host ports of a pod.

    Attributes:
        namespace: of the pod.
        name: of the pod.
        address: of the pod.
        ports: its host ports.
        host_network: whether it has the network of its node.
    """

    namespace: str
    name: str
    address: str
    ports: tuple[HostPort, ...]
    host_network: bool = False

    @classmethod
    def of(cls, namespace: str, name: str, spec: Mapping[str, Any], address: str) -> PodPorts:
        """Return the host ports of a pod's specification that are served here."""
        ports = tuple(
            HostPort(
                LOOPBACK if port.get("hostIP", "") in _WILDCARDS else port["hostIP"],
                int(port["hostPort"]),
                int(port["containerPort"]),
            )
            for port in _ports(spec)
            if port.get("hostPort") and is_served(port)
        )
        return cls(namespace, name, address, ports, host_network=bool(spec.get("hostNetwork")))


def is_served(port: Mapping[str, Any]) -> bool:
    """Return whether a host port is one of localhost, with TCP; no others are served."""
    address = str(port.get("hostIP") or "")
    local = address in _WILDCARDS or address.startswith("127.")
    return local and port.get("protocol", "TCP") == "TCP"


class HostPorts:
    """The host ports of all pods.

    Attributes:
        own: Whether pods have ports of their own. Otherwise a program that listens on all addresses
            takes the port itself.
        changed: Called when a pod was added or removed.
    """

    def __init__(self) -> None:
        self.own = True
        self.changed: Callable[[], None] = lambda: None
        self._pods: dict[str, PodPorts] = {}

    def add(self, uid: str, pod: PodPorts) -> None:
        """Serve the host ports of a pod."""
        if pod.ports:
            self._pods[uid] = pod
            self.changed()

    def remove(self, uid: str) -> None:
        """Stop serving the host ports of a pod."""
        if self._pods.pop(uid, None) is not None:
            self.changed()

    def listeners(self) -> dict[Listener, Served]:
        """Return where to listen for them; of two pods with one port the first has it."""
        wanted: dict[Listener, Served] = {}
        for pod in self._pods.values():
            for port in pod.ports:
                if not self.own and (pod.host_network or port.number == port.target):
                    continue  # the pod's program listens there itself
                backend = Backend(pod.address, port.target)
                served = Served((backend,), pod.namespace, pod.name, kind="Pod")
                wanted.setdefault(Listener(port.address, port.number), served)
        return wanted

    def reserved(self) -> frozenset[int]:
        """Return the ports that programs of pods want on all addresses of the machine."""
        if self.own:
            return frozenset()
        pods = (pod for pod in self._pods.values() if pod.host_network)
        return frozenset(port.number for pod in pods for port in pod.ports)


def taken_ports(
    spec: Mapping[str, Any],
    labels: Mapping[str, str],
    services: Iterable[AnyObject],
    holder: Callable[[int], str],
) -> Iterator[tuple[int, str]]:
    """Yield the ports of a pod that a program of the machine has on all addresses, and the program.

    Its ports are those that its specification declares, and those that Services send to it.

    Args:
        spec: Of the pod.
        labels: Of the pod.
        services: The Services of its namespace.
        holder: Describes who listens on a port of all addresses; empty for nobody.
    """
    numbers = {
        int(port["containerPort"]) for port in _ports(spec) if port.get("protocol", "TCP") == "TCP"
    }
    for service in services:
        selector = service.spec.get("selector") or {}
        if not selector or not selector.items() <= labels.items():
            continue
        for port in service.spec.get("ports") or ():
            target = port.get("targetPort") or port.get("port")
            if isinstance(target, int) and port.get("protocol", "TCP") == "TCP":
                numbers.add(target)
    for number in sorted(numbers):
        if found := holder(number):
            yield number, found


def _ports(spec: Mapping[str, Any]) -> Iterator[Document]:
    """Yield the ports of containers that run at the same time: sidecars as well."""
    sidecars = (
        each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"
    )
    for container in (*sidecars, *(spec.get("containers") or ())):
        yield from container.get("ports") or ()
