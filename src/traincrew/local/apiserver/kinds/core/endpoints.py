"""Endpoints: the addresses behind a Service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import NONE, age_of, name_of, shortened
from traincrew.local.apiserver.kinds.shared.fields import address, port_number
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import items

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _host_port(address: str, port: Any) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of an Endpoints object."""
    shown: list[str] = []
    for subset in items(obj, "subsets"):
        addresses = [address.get("ip", "") for address in items(subset, "addresses")]
        ports = list(items(subset, "ports"))
        if not ports:
            shown += addresses
        for port in ports:
            shown += [_host_port(address, port.get("port")) for address in addresses]
    return [name_of(obj), shortened(shown, NONE), age_of(obj, now)]


def _default(obj: Document) -> None:
    for subset in items(obj, "subsets"):
        for port in items(subset, "ports"):
            if not port.get("protocol"):
                port["protocol"] = "TCP"


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate an Endpoints object."""
    for index, subset in enumerate(items(obj, "subsets")):
        here = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            detail = "must specify `addresses` or `notReadyAddresses`"
            found.append(why.required(here, detail))
        for key in ("addresses", "notReadyAddresses"):
            for position, entry in enumerate(items(subset, key)):
                address(found, entry.get("ip", ""), f"{here}.{key}[{position}].ip")
        ports = list(items(subset, "ports"))
        for position, entry in enumerate(ports):
            if len(ports) > 1 and not entry.get("name"):
                found.append(why.required(f"{here}.ports[{position}].name"))
            port_number(found, f"{here}.ports[{position}].port", entry.get("port", 0))


STRATEGY = Strategy(
    columns="Name Endpoints Age",
    row=_row,
    default=_default,
    validate=_validate,
)
