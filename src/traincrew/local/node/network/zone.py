"""The DNS records of the cluster, by Kubernetes' DNS specification, version 1.1. Pure.

Services: `NAME.NAMESPACE.svc.DOMAIN` resolves to the cluster IP, or to the ready pods of a headless
Service; `_PORT._PROTOCOL.` before it has SRV records. Pods:
`HOSTNAME.SUBDOMAIN.NAMESPACE.svc.DOMAIN` and `1-2-3-4.NAMESPACE.pod.DOMAIN`. Addresses have PTR
records with those names.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address
from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.node.network.hosts import DOMAIN as _SERVICES
from traincrew.local.node.network.messages import Kind, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traincrew.engine.objects import AnyObject
    from traincrew.local.node.network.hosts import PodName

__all__ = ["DOMAIN", "ClusterNames", "Zone"]

DOMAIN = "cluster.local"
_REVERSE = "in-addr.arpa"
# All addresses of the cluster are in 127/8, and no other addresses are.
_OWN_REVERSE = f"127.{_REVERSE}"
_SERVICE_LABEL = "kubernetes.io/service-name"


class Found(NamedTuple):
    """The result of a query to a zone.

    Attributes:
        exists: whether the name or one below it exists, whatever its records.
        records: of the requested kind.
    """

    exists: bool
    records: tuple[Record, ...] = ()


class Zone:
    """The names of a cluster at one moment.

    Args:
        pods: All pods that have an address.
        services: All Services.
        slices: Their EndpointSlices.
    """

    def __init__(
        self,
        pods: Iterable[PodName],
        services: Iterable[AnyObject],
        slices: Iterable[AnyObject],
    ) -> None:
        self._records: dict[str, list[Record]] = {}
        self._parents: set[str] = set()
        by_service: dict[tuple[str, str], list[AnyObject]] = {}
        for each in slices:
            name = each.metadata.labels.get(_SERVICE_LABEL, "")
            by_service.setdefault((each.metadata.namespace, name), []).append(each)
        for pod in pods:
            if pod.subdomain:
                name = f"{pod.hostname}.{pod.subdomain}.{pod.namespace}.{_SERVICES}"
                self._add(name, Record.address(pod.address))
                self._add_pointer(pod.address, name)
        for service in services:
            key = service.metadata.namespace, service.metadata.name
            self._add_service(service, by_service.get(key, []))

    @staticmethod
    def is_authority_for(name: str) -> bool:
        """Return whether the cluster is the authority for a name."""
        return any(name == zone or name.endswith(f".{zone}") for zone in (DOMAIN, _OWN_REVERSE))

    def find(self, name: str, kind: int) -> Found:
        """Look up a name of this zone.

        Args:
            name: In lower case, without the final dot.
            kind: Of the records asked for.
        """
        records = self._records.get(name)
        if records is None and (address := _address_in(name)):
            records = [Record.address(address)]
        if records is None:
            return Found(name in {DOMAIN, _OWN_REVERSE} or name in self._parents)
        wanted = (record for record in records if kind in {record.kind, Kind.ANY})
        return Found(exists=True, records=tuple(wanted))

    def _add(self, name: str, record: Record) -> None:
        name = name.lower()
        records = self._records.setdefault(name, [])
        if record not in records:
            records.append(record)
        while (parent := name.partition(".")[2]) and parent not in self._parents:
            self._parents.add(parent)
            name = parent

    def _add_pointer(self, address: str, name: str) -> None:
        reverse = ".".join(reversed(address.split(".")))
        self._add(f"{reverse}.{_REVERSE}", Record.pointer(name))

    def _add_service(self, service: AnyObject, slices: list[AnyObject]) -> None:
        name = f"{service.metadata.name}.{service.metadata.namespace}.{_SERVICES}"
        address = service.spec.get("clusterIP") or ""
        if address and address != "None":
            self._add(name, Record.address(address))
            self._add_pointer(address, name)
            for port in service.spec.get("ports") or ():
                self._add_port(name, port, int(port["port"]), name)
            return
        for each in slices:
            for endpoint in each.endpoints:
                if not (endpoint.get("conditions") or {}).get("ready", True):
                    continue
                for address in endpoint.get("addresses") or ():
                    if ":" in address:
                        continue
                    host = endpoint.get("hostname") or address.replace(".", "-")
                    self._add(name, Record.address(address))
                    self._add(f"{host}.{name}", Record.address(address))
                    for port in each.ports:
                        if port.get("port"):
                            self._add_port(name, port, int(port["port"]), f"{host}.{name}")

    def _add_port(self, service: str, port: dict[str, object], number: int, target: str) -> None:
        if name := port.get("name"):
            protocol = str(port.get("protocol") or "TCP").lower()
            self._add(f"_{name}._{protocol}.{service}", Record.service(number, target))


class ClusterNames:
    """The current zone, rebuilt on demand after a change.

    Args:
        pods: All pods that have an address.
        services: All Services.
        slices: Their EndpointSlices.
    """

    def __init__(
        self,
        pods: Callable[[], Iterable[PodName]],
        services: Callable[[], Iterable[AnyObject]],
        slices: Callable[[], Iterable[AnyObject]],
    ) -> None:
        self._sources = pods, services, slices
        self._zone: Zone | None = None

    def changed(self, *_: object) -> None:
        """Invalidate the zone: a pod, a Service or an EndpointSlice has changed."""
        self._zone = None

    def zone(self) -> Zone:
        """Return the current zone."""
        if self._zone is None:
            pods, services, slices = self._sources
            self._zone = Zone(pods(), services(), slices())
        return self._zone


def _address_in(name: str) -> str:
    """Return the address in a pod's name (`1-2-3-4`); empty if the name has none."""
    label, _, rest = name.partition(".")
    namespace, _, rest = rest.partition(".")
    if not namespace or rest != f"pod.{DOMAIN}":
        return ""
    try:
        return str(IPv4Address(label.replace("-", ".")))
    except AddressValueError:
        return ""
