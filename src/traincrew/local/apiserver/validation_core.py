"""Rules for the other kinds of the core group (``pkg/apis/core/validation``)."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
from typing import TYPE_CHECKING, Any

from . import causes as why
from .defaults_pod import field, items
from .names import config_map_key_fault, label_fault, qualified_name_fault, subdomain_fault
from .validation_containers import port, port_or_name
from .validation_meta import immutable, labels

if TYPE_CHECKING:
    from .causes import Cause

__all__ = [
    "binding",
    "config_map",
    "endpoints",
    "event",
    "namespace",
    "node",
    "secret",
    "service",
]

Document = dict[str, Any]

_SIZE_LIMIT = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"


# --- configuration ------------------------------------------------------------------------------


def _sealed(found: list[Cause], obj: Document, old: Document | None, keys: tuple[str, ...]) -> None:
    """Objects with ``immutable: true`` stay as they are."""
    if old is None or not old.get("immutable"):
        return
    if not obj.get("immutable"):
        found.append(why.forbidden("immutable", _IMMUTABLE))
    found.extend(
        why.forbidden(key, _IMMUTABLE)
        for key in keys
        if (obj.get(key) or {}) != (old.get(key) or {})
    )


def _key_rules(found: list[Cause], values: Document, path: str) -> None:
    for key in values:
        fault = config_map_key_fault(key)
        if fault:
            found.append(why.invalid(f"{path}[{key}]", key, fault))


def _decoded(found: list[Cause], values: Document, path: str) -> dict[str, bytes]:
    """Values that travel as base64; those that are not are refused."""
    result: dict[str, bytes] = {}
    for key, text in values.items():
        try:
            result[key] = base64.b64decode(text, validate=True)
        except binascii.Error as error:
            detail = f"illegal base64 data: {error}"
            found.append(why.invalid(f"{path}[{key}]", "<value omitted>", detail))
    return result


def config_map(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Rules for a ConfigMap."""
    data, binary = field(obj, "data"), field(obj, "binaryData")
    _key_rules(found, data, "data")
    _key_rules(found, binary, "binaryData")
    for key in data:
        if key in binary:
            detail = "duplicate of key present in binaryData"
            found.append(why.invalid(f"data[{key}]", key, detail))
    size = sum(len(value.encode()) for value in data.values())
    size += sum(len(value) for value in _decoded(found, binary, "binaryData").values())
    if size > _SIZE_LIMIT:
        found.append(why.too_long("[]", _SIZE_LIMIT))
    _sealed(found, obj, old, ("data", "binaryData"))


_SECRET_KEYS: dict[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name"


def secret(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Rules for a Secret."""
    data = field(obj, "data")
    _key_rules(found, data, "data")
    decoded = _decoded(found, data, "data")
    if sum(map(len, decoded.values())) > _SIZE_LIMIT:
        found.append(why.too_long("data", _SIZE_LIMIT))
    kind = obj.get("type", "Opaque")
    found.extend(
        why.required(f"data[{key}]") for key in _SECRET_KEYS.get(kind, ()) if key not in data
    )
    if kind == "kubernetes.io/service-account-token":
        if not field(obj, "metadata", "annotations").get(_SERVICE_ACCOUNT_NAME):
            found.append(why.required(f"metadata.annotations[{_SERVICE_ACCOUNT_NAME}]"))
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            found += [why.required("data[username]"), why.required("data[password]")]
    elif kind.startswith("kubernetes.io/dockerc"):
        (key,) = _SECRET_KEYS[kind]
        _json_object(found, decoded.get(key), f"data[{key}]")
    if old is not None:
        immutable(found, "type", obj.get("type"), old.get("type"))
    _sealed(found, obj, old, ("data",))


def _json_object(found: list[Cause], content: bytes | None, path: str) -> None:
    if content is None:
        return
    try:
        if type(json.loads(content)) is dict:
            return
        detail = "must be a JSON object"
    except ValueError as error:
        detail = str(error)
    found.append(why.invalid(path, "<secret contents redacted>", detail))


# --- services -----------------------------------------------------------------------------------

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")


def _address(found: list[Cause], value: str, path: str) -> None:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        found.append(why.invalid(path, value, detail))


def service(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Rules for a Service."""
    spec = field(obj, "spec")
    kind = spec.get("type", "ClusterIP")
    headless = spec.get("clusterIP") == "None"
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
    for index, address in enumerate(spec.get("externalIPs") or ()):
        _address(found, address, f"spec.externalIPs[{index}]")
    for key, allowed in (
        ("internalTrafficPolicy", ("Cluster", "Local")),
        ("externalTrafficPolicy", ("Cluster", "Local")),
        ("ipFamilyPolicy", ("PreferDualStack", "RequireDualStack", "SingleStack")),
    ):
        value = spec.get(key)
        if value is not None and value not in allowed:
            found.append(why.not_supported(f"spec.{key}", value, allowed))
    if spec.get("externalTrafficPolicy") and kind not in ("LoadBalancer", "NodePort"):
        detail = "may only be set for externally-accessible services"
        value = spec["externalTrafficPolicy"]
        found.append(why.invalid("spec.externalTrafficPolicy", value, detail))
    if kind != "ExternalName":
        _cluster_addresses(found, spec)
        if old is not None:
            _cluster_address_update(found, spec, field(old, "spec"))


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
            found.append(why.duplicate(here, {"port": number[1], "protocol": protocol}))
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
    address, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    here = "spec.clusterIPs"
    if address and not addresses:
        found.append(why.required(here))
    elif address and addresses[0] != address:
        found.append(why.invalid(here, addresses, "first value must match `clusterIP`"))
    elif addresses and not address:
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
            _address(found, value, f"{here}[{index}]")


def _cluster_address_update(found: list[Cause], spec: Document, old: Document) -> None:
    if old.get("type") == "ExternalName":
        return
    address, before = spec.get("clusterIP", ""), old.get("clusterIP", "")
    if not before or address == before:
        return
    here, addresses = "spec.clusterIPs[0]", spec.get("clusterIPs") or []
    detail = "may not change once set" if address else "primary clusterIP can not be unset"
    found.append(why.invalid(here, addresses, detail))


def endpoints(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Rules for an Endpoints object."""
    for index, subset in enumerate(items(obj, "subsets")):
        here = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            detail = "must specify `addresses` or `notReadyAddresses`"
            found.append(why.required(here, detail))
        for key in ("addresses", "notReadyAddresses"):
            for position, address in enumerate(items(subset, key)):
                _address(found, address.get("ip", ""), f"{here}.{key}[{position}].ip")
        ports = list(items(subset, "ports"))
        for position, entry in enumerate(ports):
            if len(ports) > 1 and not entry.get("name"):
                found.append(why.required(f"{here}.ports[{position}].name"))
            port(found, f"{here}.ports[{position}].port", entry.get("port", 0))


# --- cluster ------------------------------------------------------------------------------------


def namespace(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Rules for a Namespace."""
    for finalizer in field(obj, "spec").get("finalizers") or ():
        fault = qualified_name_fault(finalizer)
        if fault:
            found.append(why.invalid("spec.finalizers", finalizer, fault))
        elif "/" not in finalizer and finalizer != "kubernetes":
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(why.invalid("spec.finalizers", finalizer, detail))


_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")


def node(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Rules for a Node."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(items(obj, "spec", "taints")):
        here = f"spec.taints[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        fault = qualified_name_fault(key)
        if fault:
            found.append(why.invalid(f"{here}.key", key, fault))
        if effect not in _EFFECTS:
            found.append(why.not_supported(f"{here}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            found.append(why.duplicate(here, taint))
        seen.add((key, effect))


def binding(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Rules for a Binding."""
    target = field(obj, "target")
    if target.get("kind", "Node") not in ("", "Node"):
        found.append(why.not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        found.append(why.required("target.name"))


_EVENT_LIMITS = (("action", 128), ("reason", 128), ("message", 1024))


def event(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Rules for an Event of the core group; new-style ones (with eventTime) have more."""
    own = field(obj, "metadata").get("namespace", "")
    regarding = field(obj, "involvedObject").get("namespace", "")
    here = "involvedObject.namespace"
    mismatch = why.invalid(here, regarding, "does not match event.namespace")
    if not obj.get("eventTime"):
        if own != regarding and (regarding or own != "default"):
            found.append(mismatch)
        return
    if not regarding and own not in ("default", "kube-system"):
        found.append(mismatch)
    controller = obj.get("reportingComponent") or ""
    fault = qualified_name_fault(controller)
    if not controller:
        found.append(why.required("reportingComponent"))
    elif fault:
        found.append(why.invalid("reportingComponent", controller, fault))
    found.extend(
        why.required(key) for key in ("reportingInstance", "action", "reason") if not obj.get(key)
    )
    for key, limit in _EVENT_LIMITS:
        if len(obj.get(key) or "") > limit:
            found.append(why.invalid(key, "", f"can have at most {limit} characters"))
