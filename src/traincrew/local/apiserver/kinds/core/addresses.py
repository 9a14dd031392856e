"""Cluster IPs and node ports of Services."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import TYPE_CHECKING

from traincrew.local.apiserver.values import causes
from traincrew.local.apiserver.values.errors import internal, invalid

from .service import externally_accessible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["DEFAULT_RANGE", "Addresses"]

# All of 127/8 is local on Linux, so that a proxy can listen on a Service's address.
DEFAULT_RANGE = IPv4Network("127.64.0.0/16")
_NODE_PORTS = range(30000, 32768)


class Addresses:
    """Allocates cluster IPs and node ports.

    Args:
        storage: holds the Services with the allocated ones.
        network: the range of cluster IPs.
    """

    def __init__(self, storage: Storage, network: IPv4Network = DEFAULT_RANGE) -> None:
        self._storage = storage
        self.network = network
        self._last = int(network.network_address)
        self._last_port = _NODE_PORTS.start - 1

    def _allocated(self) -> set[str]:
        return {entry.obj["spec"].get("clusterIP", "") for entry in self._storage.scan("services")}

    def assign(self, new: Document, old: Document | None) -> None:
        """Set cluster IPs, IP families and node ports; keep those already assigned.

        Raises:
            StatusError: 422 when the requested address is outside of the range, allocated, or was
                changed, two families are requested, or a node port is not available; 500 when all
                addresses are allocated.
        """
        spec = new["spec"]
        before: Document = old["spec"] if old is not None else {}
        if old is not None:
            _keep_assigned(spec, before)
            _drop_unused(spec, before)
        if spec.get("clusterIP"):
            spec.setdefault("clusterIPs", [spec["clusterIP"]])
        if spec.get("type") == "ExternalName":
            return
        self._set_families(new, before)
        wanted = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
        had = before.get("clusterIP", "")
        if had and wanted != had:
            if spec.get("clusterIPs") == before.get("clusterIPs"):
                spec["clusterIPs"] = [wanted]
            return  # validation rejects it
        if not wanted:
            wanted = self._next_free()
        elif wanted != "None" and not had:
            self._check_address(new, wanted)
        spec["clusterIP"] = wanted
        spec["clusterIPs"] = spec.get("clusterIPs") or [wanted]
        self._check_node_ports(new, before)
        self._assign_node_ports(spec)

    def _set_families(self, new: Document, before: Document) -> None:
        """Set the IP families: IPv4 only, except for a headless Service without a selector."""
        spec = new["spec"]
        free = spec.get("clusterIP") == "None" and not spec.get("selector")
        default = before.get("ipFamilyPolicy") or ("RequireDualStack" if free else "SingleStack")
        policy = spec["ipFamilyPolicy"] = spec.get("ipFamilyPolicy") or default
        families = spec.get("ipFamilies") or ["IPv4"]
        if policy == "SingleStack" and families == before.get("ipFamilies"):
            families = families[:1]
        spec["ipFamilies"] = families
        if free:
            if policy != "SingleStack" and len(families) < 2:
                other = "IPv6" if families == ["IPv4"] else "IPv4"
                spec["ipFamilies"] = [*families, other]
            return
        found = []
        if policy == "RequireDualStack":
            detail = "this cluster is not configured for dual-stack services"
            found.append(causes.invalid("spec.ipFamilyPolicy", policy, detail))
        for index, family in enumerate(families):
            if family != "IPv4":
                detail = "not configured on this cluster"
                found.append(causes.invalid(f"spec.ipFamilies[{index}]", family, detail))
        self._refuse(new, *found)

    def _refuse(self, new: Document, *found: causes.Cause) -> None:
        if found:
            raise invalid("", "Service", new["metadata"].get("name", ""), found)

    def _check_address(self, new: Document, wanted: str) -> None:
        problem = ""
        try:
            address = IPv4Address(wanted)
        except AddressValueError:
            detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            self._refuse(new, causes.invalid("spec.clusterIPs[0]", wanted, detail))
        else:
            if address not in self.network:
                problem = (
                    f"failed to allocate IP {wanted}: the provided IP "
                    f"({wanted}) is not in the valid range. The range of valid IPs is "
                    f"{self.network}"
                )
            elif wanted in self._allocated():
                problem = f"failed to allocate IP {wanted}: provided IP is already allocated"
        if problem:
            self._refuse(new, causes.invalid("spec.clusterIPs", [wanted], problem))

    def _next_free(self) -> str:
        allocated = self._allocated()
        first = int(self.network.network_address) + 1
        last = int(self.network.broadcast_address) - 1
        for _ in range(first, last + 1):
            self._last = self._last + 1 if first <= self._last + 1 <= last else first
            address = str(IPv4Address(self._last))
            if address not in allocated:
                return address
        raise internal(f"failed to allocate a serviceIP: range {self.network} is full")

    def _used_ports(self) -> Iterator[int]:
        for entry in self._storage.scan("services"):
            spec = entry.obj["spec"]
            for port in spec.get("ports", ()):
                if "nodePort" in port:
                    yield port["nodePort"]
            if spec.get("healthCheckNodePort"):
                yield spec["healthCheckNodePort"]

    def _check_node_ports(self, new: Document, before: Document) -> None:
        """Check that requested node ports are in the range and not allocated."""
        if not _has_node_ports(new["spec"]):
            return
        own = {port.get("nodePort") for port in before.get("ports", ())}
        used = set(self._used_ports())
        for index, port in enumerate(new["spec"].get("ports", ())):
            wanted = port.get("nodePort")
            if not wanted or wanted in own:
                continue
            if wanted not in _NODE_PORTS:
                first, last = _NODE_PORTS.start, _NODE_PORTS.stop - 1
                problem = (
                    "provided port is not in the valid range. "
                    f"The range of valid ports is {first}-{last}"
                )
            elif wanted in used:
                problem = "provided port is already allocated"
            else:
                continue
            self._refuse(new, causes.invalid(f"spec.ports[{index}].nodePort", wanted, problem))

    def _assign_node_ports(self, spec: Document) -> None:
        holders = [(port, "nodePort") for port in spec.get("ports", ()) if _has_node_ports(spec)]
        if _checks_health(spec):
            holders.append((spec, "healthCheckNodePort"))
        wanting = [holder for holder in holders if not holder[0].get(holder[1])]
        if not wanting:
            return
        used = {*self._used_ports(), *(target.get(name) for target, name in holders)}
        for target, name in wanting:
            for _ in _NODE_PORTS:
                self._last_port += 1
                if self._last_port not in _NODE_PORTS:
                    self._last_port = _NODE_PORTS.start
                if self._last_port not in used:
                    break
            target[name] = self._last_port
            used.add(self._last_port)


def _has_node_ports(spec: Document) -> bool:
    """Return whether new ports get a node port."""
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort"


def _may_have_node_ports(spec: Document) -> bool:
    return spec.get("type") in {"LoadBalancer", "NodePort"}


def _checks_health(spec: Document) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _keep_assigned(spec: Document, before: Document) -> None:
    """Keep what was assigned where the client does not set it."""
    if "ExternalName" not in {spec.get("type"), before.get("type")}:
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field) and before.get(field):
                spec[field] = before[field]
    if _may_have_node_ports(before) and _may_have_node_ports(spec):
        mine, theirs = _ports_of(spec), _ports_of(before)
        known = {port.get("name", ""): port.get("nodePort") for port in before.get("ports", ())}
        for port in spec.get("ports", ()):
            number = known.get(port.get("name", ""))
            if not port.get("nodePort") and number and number not in mine & theirs:
                port["nodePort"] = number
    if _checks_health(before) and _checks_health(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before["healthCheckNodePort"]


def _ports_of(spec: Document) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort")}


def _drop_unused(spec: Document, before: Document) -> None:
    """Drop fields that only the previous type has, unless the client changes them: an error."""

    def drop(*fields: str) -> None:
        for field in fields:
            if spec.get(field) == before.get(field):
                spec.pop(field, None)

    if spec.get("type") == "ExternalName" != before.get("type"):
        drop("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
    if (
        _may_have_node_ports(before)
        and not _may_have_node_ports(spec)
        and _ports_of(spec) <= _ports_of(before)
    ):
        for port in spec.get("ports", ()):
            port.pop("nodePort", None)
    if _checks_health(before) and not _checks_health(spec):
        drop("healthCheckNodePort")
    if before.get("type") == "LoadBalancer" != spec.get("type"):
        drop("allocateLoadBalancerNodePorts", "loadBalancerClass")
    if externally_accessible(before) and not externally_accessible(spec):
        drop("externalTrafficPolicy")
