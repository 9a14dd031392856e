"""The DNS records of the cluster, by Kubernetes' DNS specification, version 1.1. Pure.

- Services: `NAME.NAMESPACE.svc.DOMAIN` resolves to the cluster IP, or to the ready endpoints of a
  headless Service, or is an alias of an external name. With `_PORT._PROTOCOL.` before it it has SRV
  records.
- Ready endpoints of a headless Service: `HOST.NAME.NAMESPACE.svc.DOMAIN`. HOST is the host name of
  a pod that names the Service as its `subdomain`, and else the address with dashes.
- Addresses of both have PTR records. Any address has the name `1-2-3-4.NAMESPACE.pod.DOMAIN`.

No pod has another name. `publishNotReadyAddresses` makes endpoints ready before their pods are.
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import AddressValueError, IPv4Address
from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.node.network.hosts import DOMAIN
from traincrew.local.node.network.hosts import SERVICES as _SERVICES
from traincrew.local.node.network.messages import Record, RecordType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traincrew.engine.objects import AnyObject

__all__ = ["DOMAIN", "ClusterNames", "Zone"]

_VERSION = "1.1.0"
_REVERSE = "in-addr.arpa"
# All addresses of the cluster are in 127/8, and no other addresses are.
_OWN_REVERSE = f"127.{_REVERSE}"
_SERVICE_LABEL = "kubernetes.io/service-name"


class Found(NamedTuple):
    """The result of a query to a zone.

    Attributes:
        exists: whether the name or one below it exists, whatever its records.
        records: of the requested kind, or the name's alias.
        alias: what the name is an alias of, where other records than the alias were asked for.
    """

    exists: bool
    records: tuple[Record, ...] = ()
    alias: str = ""


class Zone:
    """The names of a cluster at one moment.

    Args:
        services: All Services.
        slices: Their EndpointSlices.
    """

    def __init__(self, services: Iterable[AnyObject], slices: Iterable[AnyObject]) -> None:
        self._records: dict[str, list[Record]] = {}
        self._aliases: dict[str, str] = {}
        self._parents: set[str] = set()
        self._add(f"dns-version.{DOMAIN}", Record.text(_VERSION))
        by_service: dict[tuple[str, str], list[AnyObject]] = {}
        for each in slices:
            name = each.metadata.labels.get(_SERVICE_LABEL, "")
            by_service.setdefault((each.metadata.namespace, name), []).append(each)
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
        if (alias := self._aliases.get(name)) and kind not in {RecordType.CNAME, RecordType.ANY}:
            return Found(exists=True, records=(Record.alias(alias),), alias=alias)
        if records is None and (address := _address_in(name)):
            records = [Record.address(address)]
        if records is None:
            return Found(name in {DOMAIN, _OWN_REVERSE} or name in self._parents)
        wanted = (record for record in records if kind in {record.kind, RecordType.ANY})
        return Found(exists=True, records=tuple(wanted))

    def addresses(self) -> dict[str, tuple[str, ...]]:
        """Return the names that have addresses, with these."""
        found = {}
        for name, records in self._records.items():
            addresses = [
                str(IPv4Address(each.data)) for each in records if each.kind == RecordType.A
            ]
            if addresses:
                found[name] = tuple(addresses)
        return found

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
        if service.spec.get("type") == "ExternalName":
            self._add_alias(name, str(service.spec.get("externalName") or ""))
        elif address == "None":
            for each in slices:
                self._add_endpoints(name, each)
        elif address:
            self._add(name, Record.address(address))
            self._add_pointer(address, name)
            for port in service.spec.get("ports") or ():
                self._add_port(name, port, int(port["port"]), name)

    def _add_alias(self, name: str, target: str) -> None:
        if _is_address(target):  # CoreDNS has no record for it either: an alias is of a name
            return
        with suppress(ValueError):
            self._add(name, Record.alias(target))
            self._aliases[name] = target.rstrip(".").lower()

    def _add_endpoints(self, name: str, each: AnyObject) -> None:
        """Add the ready endpoints of a headless Service."""
        for endpoint in each.endpoints:
            if not (endpoint.get("conditions") or {}).get("ready", True):
                continue
            for address in endpoint.get("addresses") or ():
                if not _is_address(address):  # pods have no IPv6 addresses here
                    continue
                host = f"{endpoint.get('hostname') or address.replace('.', '-')}.{name}"
                self._add(name, Record.address(address))
                self._add(host, Record.address(address))
                self._add_pointer(address, host)
                for port in each.ports:
                    if port.get("port"):
                        self._add_port(name, port, int(port["port"]), host)

    def _add_port(self, service: str, port: dict[str, object], number: int, target: str) -> None:
        if name := port.get("name"):
            protocol = str(port.get("protocol") or "TCP").lower()
            self._add(f"_{name}._{protocol}.{service}", Record.service(number, target))


class ClusterNames:
    """The current zone, rebuilt on demand after a change.

    Args:
        services: All Services.
        slices: Their EndpointSlices.
    """

    def __init__(
        self,
        services: Callable[[], Iterable[AnyObject]],
        slices: Callable[[], Iterable[AnyObject]],
    ) -> None:
        self._sources = services, slices
        self._zone: Zone | None = None

    def changed(self, *_: object) -> None:
        """Invalidate the zone: a Service or an EndpointSlice has changed."""
        self._zone = None

    def zone(self) -> Zone:
        """Return the current zone."""
        if self._zone is None:
            services, slices = self._sources
            self._zone = Zone(services(), slices())
        return self._zone


def _address_in(name: str) -> str:
    """Return the address in a pod's name (`1-2-3-4`); empty if the name has none."""
    label, _, rest = name.partition(".")
    namespace, _, rest = rest.partition(".")
    if not namespace or rest != f"pod.{DOMAIN}":
        return ""
    address = label.replace("-", ".")
    return address if _is_address(address) else ""


def _is_address(text: str) -> bool:
    try:
        IPv4Address(text)
    except AddressValueError:
        return False
    return True
