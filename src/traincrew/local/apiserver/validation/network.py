"""Rules for Services, Ingresses and NetworkPolicies (``pkg/apis/{core,networking}/validation``)."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.core.service import externally_accessible
from traincrew.local.apiserver.schema.unversioned import form
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import (
    label_fault,
    qualified_name_fault,
    subdomain_fault,
)

from .fields import port, port_or_name
from .meta import label_selector, labels

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["address", "ingress", "network_policy", "service"]

# --- services -----------------------------------------------------------------------------------

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")


def address(found: list[Cause], value: str, path: str) -> None:
    """Validate an IP address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        found.append(why.invalid(path, value, detail))


def service(found: list[Cause], obj: Document, old: Document | None) -> None:
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
        port(found, f"{here}.port", entry.get("port", 0))
        if protocol not in _PROTOCOLS:
            found.append(why.not_supported(f"{here}.protocol", protocol, _PROTOCOLS))
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


# --- ingresses ----------------------------------------------------------------------------------


def ingress(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate an Ingress."""
    spec = field(obj, "spec")
    if not spec.get("rules") and "defaultBackend" not in spec:
        detail = "either `defaultBackend` or `rules` must be specified"
        found.append(why.invalid("spec", spec.get("rules"), detail))
    if "defaultBackend" in spec:
        _backend(found, spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(items(spec, "rules")):
        here = f"spec.rules[{index}]"
        host = rule.get("host", "")
        # After the wildcard, `*.example.com` has to be a DNS name.
        fault = subdomain_fault(host.removeprefix("*.")) if host else ""
        if fault:
            found.append(why.invalid(f"{here}.host", host, fault))
        if "http" in rule:
            _paths(found, rule["http"], f"{here}.http")


def _paths(found: list[Cause], http: Document, path: str) -> None:
    if not http.get("paths"):
        found.append(why.required(f"{path}.paths"))
    for index, item in enumerate(items(http, "paths")):
        here = f"{path}.paths[{index}]"
        kind, value = item.get("pathType"), item.get("path", "")
        if not kind:
            found.append(why.required(f"{here}.pathType", "pathType must be specified"))
            continue
        if kind not in _PATH_TYPES:
            found.append(why.not_supported(f"{here}.pathType", kind, _PATH_TYPES))
        elif not value.startswith("/") and (value or kind != "ImplementationSpecific"):
            found.append(why.invalid(f"{here}.path", value, "must be an absolute path"))
        _backend(found, item.get("backend") or {}, f"{here}.backend")


_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


def _backend(found: list[Cause], backend: Document, path: str) -> None:
    if "resource" in backend and "service" in backend:
        detail = "cannot set both resource and service backends"
        found.append(why.invalid(path, "", detail))
    elif "service" in backend:
        name = backend["service"].get("name", "")
        fault = label_fault(name)
        if not name:
            found.append(why.required(f"{path}.service.name"))
        elif fault:
            found.append(why.invalid(f"{path}.service.name", name, fault))
        target = field(backend, "service", "port")
        if target.get("name") and target.get("number"):
            found.append(why.invalid(path, "", "cannot set both port name & port number"))
        elif target.get("name"):
            port_or_name(found, f"{path}.service.port.name", target["name"])
        elif target.get("number"):
            port(found, f"{path}.service.port.number", target["number"])
        else:
            found.append(why.required(path, "port name or number is required"))
    elif "resource" not in backend:
        found.append(why.invalid(path, "", "resource or service backend is required"))


# --- network policies ---------------------------------------------------------------------------


def network_policy(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a NetworkPolicy."""
    spec = field(obj, "spec")
    label_selector(found, spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(items(spec, direction)):
            here = f"spec.{direction}[{index}]"
            for position, entry in enumerate(items(rule, "ports")):
                protocol = entry.get("protocol", "TCP")
                if protocol not in _PROTOCOLS:
                    where = f"{here}.ports[{position}].protocol"
                    found.append(why.not_supported(where, protocol, ("TCP", "UDP", "SCTP")))
                if entry.get("port") is not None:
                    port_or_name(found, f"{here}.ports[{position}].port", entry["port"])
            for position, peer in enumerate(items(rule, peers)):
                _peer(found, peer, f"{here}.{peers}[{position}]")
    kinds = spec.get("policyTypes") or []
    if len(kinds) > len(_DIRECTIONS):
        text = "may not specify more than two policyTypes"
        found.append(why.invalid("spec.policyTypes", kinds, text))
        return
    for index, kind in enumerate(kinds):
        if kind not in _DIRECTIONS:
            found.append(why.not_supported(f"spec.policyTypes[{index}]", kind, _DIRECTIONS))


_DIRECTIONS = ("Ingress", "Egress")


def _peer(found: list[Cause], peer: Document, path: str) -> None:
    if not peer:
        found.append(why.required(path, "must specify a peer"))
    elif "ipBlock" in peer and len(peer) > 1:
        found.append(why.forbidden(path, "may not specify both ipBlock and another peer"))
    for key in ("podSelector", "namespaceSelector"):
        label_selector(found, peer.get(key), f"{path}.{key}")
