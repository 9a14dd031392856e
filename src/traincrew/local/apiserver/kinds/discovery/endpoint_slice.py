"""EndpointSlices."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.warnings import warn_of_address
from traincrew.local.apiserver.kinds.shared.cells import UNSET, age_of, name_of, shortened
from traincrew.local.apiserver.kinds.shared.fields import immutable
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.causes import Cause
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


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate an EndpointSlice."""
    kind = obj.get("addressType", "")
    supported = ("FQDN", "IPv4", "IPv6")
    if kind and kind not in supported:
        found.append(why.not_supported("addressType", kind, supported))
    endpoints = list(items(obj, "endpoints"))
    if len(endpoints) > 1000:
        found.append(why.too_many("endpoints", len(endpoints), 1000))
        return
    version = {"IPv4": 4, "IPv6": 6}.get(kind)
    for index, endpoint in enumerate(endpoints):
        here = f"endpoints[{index}].addresses"
        addresses = endpoint.get("addresses") or []
        if not addresses:
            found.append(why.required(here, "must contain at least 1 address"))
        elif len(addresses) > 100:
            found.append(why.too_many(here, len(addresses), 100))
        for position, address in enumerate(addresses):
            if version is not None:
                _slice_address(found, address, version, here, position)
    if old is not None:
        immutable(found, "addressType", kind, old.get("addressType"))


def _slice_address(
    found: list[Cause], address: str, version: int, path: str, position: int
) -> None:
    """Validate an address of one IP version; loopback is allowed, as pods have such addresses."""
    try:
        if ipaddress.ip_address(address).version != version:
            found.append(why.invalid(path, address, f"must be an IPv{version} address"))
    except ValueError:
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        found.append(why.invalid(f"{path}[{position}]", address, detail))


STRATEGY = Strategy(
    columns="Name AddressType Ports Endpoints Age",
    row=_row,
    warn=_warn,
    default=_default,
    validate=_validate,
)
