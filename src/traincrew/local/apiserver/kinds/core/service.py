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
from traincrew.local.apiserver.kinds.shared.fields import (
    PROTOCOLS,
    address,
    port_number,
    port_or_name,
)
from traincrew.local.apiserver.kinds.shared.meta import labels
from traincrew.local.apiserver.kinds.strategy import (
    Strategy,
    WriteContext,
)
from traincrew.local.apiserver.schema.unversioned import form
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import (
    label_fault,
    qualified_name_fault,
    subdomain_fault,
)
from traincrew.local.apiserver.values.selectors import FieldLabels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.causes import Cause
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


_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a Service."""
    spec = field(obj, "spec")
    kind = spec.get("type", "ClusterIP")
    headless = spec.get("clusterIP") == "None"
    if old is not None and kind != "ExternalName":
        _cluster_address_update(found, spec, field(old, "spec"))
    if not spec.get("ports") and not headless and kind != "ExternalName":
        found.append(why.required("spec.ports"))
    if kind in ("LoadBalancer", "NodePort") and headless:
        detail = f"may not be set to 'None' for {kind} services"
        found.append(why.invalid("spec.clusterIPs[0]", "None", detail))
    if kind == "ExternalName":
        _external_name(found, spec)
    _service_ports(found, spec, kind)
    labels(found, field(spec, "selector"), "spec.selector")
    affinity = spec.get("sessionAffinity", "None")
    if affinity not in ("ClientIP", "None"):
        supported = ("ClientIP", "None")
        found.append(why.not_supported("spec.sessionAffinity", affinity, supported))
    elif affinity == "None" and "sessionAffinityConfig" in spec:
        detail = "must not be set when session affinity is None"
        found.append(why.forbidden("spec.sessionAffinityConfig", detail))
    if kind not in _TYPES:
        found.append(why.not_supported("spec.type", kind, _TYPES))
    for index, external in enumerate(spec.get("externalIPs") or ()):
        address(found, external, f"spec.externalIPs[{index}]")
    for key, allowed in (
        ("internalTrafficPolicy", ("Cluster", "Local")),
        ("externalTrafficPolicy", ("Cluster", "Local")),
        ("ipFamilyPolicy", ("PreferDualStack", "RequireDualStack", "SingleStack")),
    ):
        value = spec.get(key)
        if value is not None and value not in allowed:
            found.append(why.not_supported(f"spec.{key}", value, allowed))
    _external_access(found, spec, kind)
    if kind != "ExternalName":
        _cluster_addresses(found, spec)


def _external_access(found: list[Cause], spec: Document, kind: str) -> None:
    policy, check_port = spec.get("externalTrafficPolicy"), spec.get("healthCheckNodePort")
    if spec.get("loadBalancerSourceRanges") and kind != "LoadBalancer":
        detail = "may only be used when `type` is 'LoadBalancer'"
        found.append(why.forbidden("spec.LoadBalancerSourceRanges", detail))
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        detail = "may only be used when `type` is 'LoadBalancer'"
        found.append(why.forbidden("spec.allocateLoadBalancerNodePorts", detail))
    if policy and not externally_accessible(spec):
        detail = "may only be set for externally-accessible services"
        found.append(why.invalid("spec.externalTrafficPolicy", policy, detail))
    if check_port and (kind != "LoadBalancer" or policy != "Local"):
        detail = (
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        )
        found.append(why.invalid("spec.healthCheckNodePort", check_port, detail))


def _external_name(found: list[Cause], spec: Document) -> None:
    for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(key):
            detail = "may not be set for ExternalName services"
            found.append(why.forbidden(f"spec.{key}", detail))
    name = spec.get("externalName", "").removesuffix(".")
    fault = subdomain_fault(name)
    if not name:
        found.append(why.required("spec.externalName"))
    elif fault:
        found.append(why.invalid("spec.externalName", name, fault))


def _service_ports(found: list[Cause], spec: Document, kind: str) -> None:
    ports = list(items(spec, "ports"))
    names: set[str] = set()
    numbers: set[tuple[Any, Any]] = set()
    node_ports: set[tuple[Any, Any]] = set()
    for index, entry in enumerate(ports):
        here = f"spec.ports[{index}]"
        name, protocol = entry.get("name", ""), entry.get("protocol", "TCP")
        if name:
            fault = label_fault(name)
            if fault:
                found.append(why.invalid(f"{here}.name", name, fault))
            if name in names:
                found.append(why.duplicate(f"{here}.name", name))
            names.add(name)
        elif len(ports) > 1:
            found.append(why.required(f"{here}.name"))
        port_number(found, f"{here}.port", entry.get("port", 0))
        if protocol not in PROTOCOLS:
            found.append(why.not_supported(f"{here}.protocol", protocol, PROTOCOLS))
        port_or_name(found, f"{here}.targetPort", entry.get("targetPort", entry.get("port", 0)))
        if entry.get("appProtocol"):
            fault = qualified_name_fault(entry["appProtocol"])
            if fault:
                found.append(why.invalid(f"{here}.appProtocol", entry["appProtocol"], fault))
        number = (protocol, entry.get("port"))
        if number in numbers:
            shown = {"protocol": protocol, "port": number[1]}
            found.append(why.duplicate(here, form("core.ServicePort", shown)))
        numbers.add(number)
        node_port = entry.get("nodePort")
        if not node_port:
            continue
        if kind == "ClusterIP":
            detail = "may not be used when `type` is 'ClusterIP'"
            found.append(why.forbidden(f"{here}.nodePort", detail))
        if (protocol, node_port) in node_ports:
            found.append(why.duplicate(f"{here}.nodePort", node_port))
        node_ports.add((protocol, node_port))


def _cluster_addresses(found: list[Cause], spec: Document) -> None:
    first, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    here = "spec.clusterIPs"
    if first and not addresses:
        found.append(why.required(here))
    elif first and addresses[0] != first:
        found.append(why.invalid(here, addresses, "first value must match `clusterIP`"))
    elif addresses and not first:
        detail = "must be empty when `clusterIP` is not specified"
        found.append(why.invalid(here, addresses, detail))
    if len(addresses) > 2:
        found.append(why.invalid(here, addresses, "may only hold up to 2 values"))
    for index, value in enumerate(addresses):
        if value == "None":
            if len(addresses) > 1:
                detail = "'None' must be the first and only value"
                found.append(why.invalid(here, addresses, detail))
        else:
            address(found, value, f"{here}[{index}]")


def _cluster_address_update(found: list[Cause], spec: Document, old: Document) -> None:
    if old.get("type") == "ExternalName":
        return
    now, before = spec.get("clusterIP", ""), old.get("clusterIP", "")
    if not before or now == before:
        return
    here, addresses = "spec.clusterIPs[0]", spec.get("clusterIPs") or []
    detail = "may not change once set" if now else "primary clusterIP can not be unset"
    found.append(why.invalid(here, addresses, detail))


def _prepare_create(context: WriteContext, new: Document) -> None:
    context.addresses.assign(new, None)


def _prepare_update(
    context: WriteContext, new: Document, old: Document, _sent: frozenset[str]
) -> None:
    context.addresses.assign(new, old)


STRATEGY = Strategy(
    selectable=FieldLabels.of("spec.clusterIP", "spec.type"),
    columns="Name Type Cluster-IP External-IP Port(s) Age Selector*",
    row=_row,
    warn=_warn,
    default=_default,
    validate=_validate,
    name_fault=label_fault,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
)
