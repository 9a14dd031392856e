"""Services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import (
    NONE,
    age_of,
    balancer_addresses,
    label_text,
    name_of,
)
from traincrew.local.apiserver.kinds.strategy import (
    PROXY_VERBS,
    ResourceType,
    Strategy,
    Subresource,
)
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.selectors import FieldLabels

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _external_address(obj: Document, spec: Document) -> str:
    kind = spec.get("type")
    addresses = list(spec.get("externalIPs", ()))
    if kind == "LoadBalancer":
        return ",".join(balancer_addresses(obj) + addresses) or "<pending>"
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    return ",".join(addresses) or NONE


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Service."""
    spec = field(obj, "spec")
    ports = []
    for port in items(spec, "ports"):
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP") or NONE]
    return [
        name_of(obj),
        spec.get("type", ""),
        addresses[0],
        _external_address(obj, spec),
        ",".join(ports) or NONE,
        age_of(obj, now),
        label_text(field(spec, "selector")),
    ]


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "",
            "v1",
            "services",
            "Service",
            short_names=("svc",),
            categories=("all",),
            status=True,
            subresources=(Subresource("proxy", "ServiceProxyOptions", PROXY_VERBS),),
            create_on_update=True,
            returns_deleted=True,
        ),
    ),
    selectable=FieldLabels.of("spec.clusterIP", "spec.type"),
    columns="Name Type Cluster-IP External-IP Port(s) Age Selector*",
    row=_row,
)
