"""EndpointSlices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import UNSET, age_of, name_of, shortened
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.documents import items

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of an EndpointSlice."""
    ports = [str(port.get("port") or port.get("name") or "*") for port in items(obj, "ports")]
    addresses = [
        address for endpoint in items(obj, "endpoints") for address in endpoint.get("addresses", ())
    ]
    return [
        name_of(obj),
        obj.get("addressType", ""),
        shortened(ports, UNSET),
        shortened(addresses, UNSET),
        age_of(obj, now),
    ]


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", generation="content"
        ),
    ),
    columns="Name AddressType Ports Endpoints Age",
    row=_row,
)
