"""Endpoints: the addresses behind a Service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import NONE, age_of, name_of, shortened
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.documents import items

if TYPE_CHECKING:
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


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "", "v1", "endpoints", "Endpoints", short_names=("ep",), create_on_update=True
        ),
    ),
    columns="Name Endpoints Age",
    row=_row,
    default=_default,
)
