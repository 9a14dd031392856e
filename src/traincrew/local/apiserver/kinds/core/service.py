"""Services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.warnings import warn_of_address
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
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.documents import Document


__all__ = ["STRATEGY", "externally_accessible"]


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


def _warn(obj: Document, _old: Document | None) -> Iterator[str]:
    spec = field(obj, "spec")
    kind, outside = spec.get("type", "ClusterIP"), spec.get("externalIPs") or ()
    headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    if "service.kubernetes.io/topology-aware-hints" in field(obj, "metadata", "annotations"):
        yield (
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use "
            "service.kubernetes.io/topology-mode instead"
        )
    if kind != "ExternalName" and spec.get("clusterIP") not in (None, "", "None"):
        for index, address in enumerate(spec.get("clusterIPs") or ()):
            yield from warn_of_address(address, f"spec.clusterIPs[{index}]")
    if headless:
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if outside:
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    for index, address in enumerate(outside):
        yield from warn_of_address(address, f"spec.externalIPs[{index}]")
    if outside and not headless and kind != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if spec.get("loadBalancerIP"):
        yield from warn_of_address(spec["loadBalancerIP"], "spec.loadBalancerIP")
    if kind == "ExternalName" and outside:
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if kind != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _default(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    timed = "timeoutSeconds" in field(spec, "sessionAffinityConfig", "clientIP")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP" and not timed:
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    kind = spec["type"] = spec.get("type") or "ClusterIP"
    for port in items(spec, "ports"):
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if not port.get("targetPort") and "port" in port:
            port["targetPort"] = port["port"]
    if externally_accessible(spec) and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    status = obj.setdefault("status", {})
    if type(status) is dict:
        status.setdefault("loadBalancer", {})


def externally_accessible(spec: Document) -> bool:
    """Return whether a Service can be reached from outside the cluster."""
    kind = spec.get("type", "ClusterIP")
    return kind in ("LoadBalancer", "NodePort") or (
        kind == "ClusterIP" and bool(spec.get("externalIPs"))
    )


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
    warn=_warn,
    default=_default,
)
