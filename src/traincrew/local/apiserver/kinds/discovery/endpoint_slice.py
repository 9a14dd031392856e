"""EndpointSlices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.warnings import warn_of_address
from traincrew.local.apiserver.kinds.shared.cells import UNSET, age_of, name_of, shortened
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.documents import field, items

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def _warn(obj: Document, old: Document | None) -> Iterator[str]:
    if old is None and obj.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"
    by = field(obj, "metadata", "labels").get("endpointslice.kubernetes.io/managed-by", "")
    if by in ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"):
        return
    for index, endpoint in enumerate(items(obj, "endpoints")):
        for position, address in enumerate(endpoint.get("addresses") or ()):
            yield from warn_of_address(address, f"endpoints[{index}].addresses[{position}]")


def _default(obj: Document) -> None:
    for endpoint in items(obj, "endpoints"):
        endpoint.setdefault("conditions", {})
    for port in items(obj, "ports"):
        port.setdefault("name", "")
        if not port.get("protocol"):
            port["protocol"] = "TCP"


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", generation="content"
        ),
    ),
    columns="Name AddressType Ports Endpoints Age",
    row=_row,
    warn=_warn,
    default=_default,
)
