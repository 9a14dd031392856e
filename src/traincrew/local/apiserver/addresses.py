"""Cluster addresses and node ports of Services."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Any

from . import causes
from .errors import internal, invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .storage import Storage

__all__ = ["DEFAULT_RANGE", "Addresses"]

Document = dict[str, Any]

# All of 127/8 is local on Linux, so a Service's address can really be listened on.
DEFAULT_RANGE = IPv4Network("127.64.0.0/16")
_NODE_PORTS = range(30000, 32768)


class Addresses:
    """Gives every Service that wants one an address of its own.

    Args:
        storage: where the taken ones are found.
        network: to take addresses from.
    """

    def __init__(self, storage: Storage, network: IPv4Network = DEFAULT_RANGE) -> None:
        self._storage = storage
        self.network = network
        self._last = int(network.network_address)
        self._last_port = _NODE_PORTS.start - 1

    def _taken(self) -> set[str]:
        return {entry.obj["spec"].get("clusterIP", "") for entry in self._storage.scan("services")}

    def assign(self, new: Document, old: Document | None) -> None:
        """Fill in ``spec.clusterIP``, ``clusterIPs`` and node ports.

        Raises:
            StatusError: 422 when the wanted address is outside of the range, taken, or was
                changed; 500 when all are taken.
        """
        spec = new["spec"]
        if spec.get("type") == "ExternalName":
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                spec.pop(field, None)
            return
        before = (old or {}).get("spec", {}).get("clusterIP", "")
        wanted = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
        if before and not wanted:
            wanted = before
        if before and wanted != before:
            self._refuse(new, "spec.clusterIPs[0]", wanted, "may not change once set")
        if not wanted:
            wanted = self._next()
        elif wanted != "None" and not before:
            self._check(new, wanted)
        spec["clusterIP"] = wanted
        spec["clusterIPs"] = [wanted]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        self._node_ports(spec)

    def _refuse(self, new: Document, field: str, value: Any, detail: str) -> None:
        cause = causes.invalid(field, value, detail)
        raise invalid("", "Service", new["metadata"].get("name", ""), [cause])

    def _check(self, new: Document, wanted: str) -> None:
        problem = ""
        try:
            address = IPv4Address(wanted)
        except AddressValueError:
            problem = "must be a valid IP address, (e.g. 10.9.8.7)"
        else:
            if address not in self.network:
                problem = (
                    "failed to allocate IP: the provided IP "
                    f"({wanted}) is not in the valid range. The range of valid IPs is "
                    f"{self.network}"
                )
            elif wanted in self._taken():
                problem = f"failed to allocate IP {wanted}: provided IP is already allocated"
        if problem:
            self._refuse(new, "spec.clusterIPs", [wanted], problem)

    def _next(self) -> str:
        taken = self._taken()
        first = int(self.network.network_address) + 1
        last = int(self.network.broadcast_address) - 1
        for _ in range(first, last + 1):
            self._last = self._last + 1 if first <= self._last + 1 <= last else first
            address = str(IPv4Address(self._last))
            if address not in taken:
                return address
        raise internal(f"failed to allocate a serviceIP: range {self.network} is full")

    def _used_ports(self) -> Iterator[int]:
        for entry in self._storage.scan("services"):
            for port in entry.obj["spec"].get("ports", ()):
                if "nodePort" in port:
                    yield port["nodePort"]

    def _node_ports(self, spec: Document) -> None:
        if spec.get("type") not in {"NodePort", "LoadBalancer"}:
            return
        used: set[int] | None = None
        for port in spec.get("ports", ()):
            if not port.get("nodePort"):
                used = set(self._used_ports()) if used is None else used
                for _ in _NODE_PORTS:
                    self._last_port += 1
                    if self._last_port not in _NODE_PORTS:
                        self._last_port = _NODE_PORTS.start
                    if self._last_port not in used:
                        break
                port["nodePort"] = self._last_port
                used.add(self._last_port)
