"""Table cells of the kinds other than workloads, including those of ``-o wide``.

Every function takes an object and the time (seconds since the epoch). Objects come from storage, so
their fields have the right types; any field may be absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.durations import age

from .parts import NONE, age_of, conditions_of, label_text, name_of, selector_text

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "config_map",
    "endpoint_slice",
    "endpoints",
    "event",
    "ingress",
    "ingress_class",
    "lease",
    "name_and_age",
    "name_and_creation",
    "namespace",
    "network_policy",
    "node",
    "persistent_volume",
    "persistent_volume_claim",
    "priority_class",
    "resource_quota",
    "role_binding",
    "secret",
    "service",
    "storage_class",
]

_UNSET = "<unset>"
_MAX_SHOWN = 3  # addresses, ports or hosts listed before "+ N more..."


def name_and_age(obj: Document, now: float) -> list[Any]:
    """Return the cells of kinds with no other columns."""
    return [name_of(obj), age_of(obj, now)]


def name_and_creation(obj: Document, _now: float) -> list[Any]:
    """Return the cells of kinds without a printer."""
    return [name_of(obj), obj["metadata"].get("creationTimestamp")]


# --- services -----------------------------------------------------------------------------------


def _balancer(obj: Document) -> list[str]:
    entries = items(obj, "status", "loadBalancer", "ingress")
    return sorted({entry.get("ip") or entry.get("hostname") or "" for entry in entries} - {""})


def _external_address(obj: Document, spec: Document) -> str:
    kind = spec.get("type")
    addresses = list(spec.get("externalIPs", ()))
    if kind == "LoadBalancer":
        return ",".join(_balancer(obj) + addresses) or "<pending>"
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    return ",".join(addresses) or NONE


def service(obj: Document, now: float) -> list[Any]:
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


def _shortened(values: list[str], empty: str) -> str:
    shown = ",".join(values[:_MAX_SHOWN])
    if len(values) > _MAX_SHOWN:
        return f"{shown} + {len(values) - _MAX_SHOWN} more..."
    return shown or empty


def _host_port(address: str, port: Any) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def endpoints(obj: Document, now: float) -> list[Any]:
    """Return the cells of an Endpoints object."""
    shown: list[str] = []
    for subset in items(obj, "subsets"):
        addresses = [address.get("ip", "") for address in items(subset, "addresses")]
        ports = list(items(subset, "ports"))
        if not ports:
            shown += addresses
        for port in ports:
            shown += [_host_port(address, port.get("port")) for address in addresses]
    return [name_of(obj), _shortened(shown, NONE), age_of(obj, now)]


def endpoint_slice(obj: Document, now: float) -> list[Any]:
    """Return the cells of an EndpointSlice."""
    ports = [str(port.get("port") or port.get("name") or "*") for port in items(obj, "ports")]
    addresses = [
        address for endpoint in items(obj, "endpoints") for address in endpoint.get("addresses", ())
    ]
    return [
        name_of(obj),
        obj.get("addressType", ""),
        _shortened(ports, _UNSET),
        _shortened(addresses, _UNSET),
        age_of(obj, now),
    ]


def ingress(obj: Document, now: float) -> list[Any]:
    """Return the cells of an Ingress."""
    spec = field(obj, "spec")
    hosts = [rule["host"] for rule in items(spec, "rules") if rule.get("host")]
    return [
        name_of(obj),
        spec.get("ingressClassName") or NONE,
        _shortened(hosts, "*"),
        ",".join(_balancer(obj)),
        "80, 443" if spec.get("tls") else "80",
        age_of(obj, now),
    ]


def ingress_class(obj: Document, now: float) -> list[Any]:
    """Return the cells of an IngressClass."""
    spec = field(obj, "spec")
    parameters = field(spec, "parameters")
    shown = NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        shown = f"{parameters.get('kind')}{group}/{parameters.get('name')}"
    annotation = "ingressclass.kubernetes.io/is-default-class"
    name = _with_default(obj, annotation)
    return [name, spec.get("controller", ""), shown, age_of(obj, now)]


def _with_default(obj: Document, annotation: str) -> str:
    default = field(obj, "metadata", "annotations").get(annotation) == "true"
    return name_of(obj) + (" (default)" if default else "")


def network_policy(obj: Document, now: float) -> list[Any]:
    """Return the cells of a NetworkPolicy."""
    return [name_of(obj), selector_text(field(obj, "spec").get("podSelector")), age_of(obj, now)]


# --- cluster, configuration, storage ------------------------------------------------------------

_ROLE_PREFIX = "node-role.kubernetes.io/"


def node(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Node."""
    status = field(obj, "status")
    info = field(status, "nodeInfo")
    condition = conditions_of(obj).get("Ready")
    words = ["Unknown" if condition is None else "Ready" if condition == "True" else "NotReady"]
    if field(obj, "spec").get("unschedulable"):
        words.append("SchedulingDisabled")
    labels = field(obj, "metadata", "labels")
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get("kubernetes.io/role", ""))
    addresses: dict[str, str] = {}
    for address in items(status, "addresses"):
        addresses.setdefault(address.get("type", ""), address.get("address", ""))
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name_of(obj),
        ",".join(words),
        ",".join(sorted(roles - {""})) or NONE,
        age_of(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def event(obj: Document, now: float) -> list[Any]:
    """Return the cells of an Event."""
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    series = field(obj, "series")
    if series:
        last, count = series.get("lastObservedTime"), series.get("count", 0)
    regarding = field(obj, "involvedObject") or field(obj, "regarding")
    target = regarding.get("kind", "").lower()
    if regarding.get("name"):
        target += f"/{regarding['name']}"
    source = field(obj, "source") or field(obj, "deprecatedSource")
    component = (
        source.get("component")
        or obj.get("reportingComponent")
        or obj.get("reportingController")
        or ""
    )
    instance = source.get("host") or obj.get("reportingInstance") or ""
    return [
        age(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        regarding.get("fieldPath", ""),
        f"{component}, {instance}" if instance else component,
        (obj.get("message") or obj.get("note") or "").strip(),
        age(first, now),
        count,
        name_of(obj),
    ]


def namespace(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Namespace."""
    return [name_of(obj), field(obj, "status").get("phase", ""), age_of(obj, now)]


def config_map(obj: Document, now: float) -> list[Any]:
    """Return the cells of a ConfigMap."""
    count = len(field(obj, "data")) + len(field(obj, "binaryData"))
    return [name_of(obj), count, age_of(obj, now)]


def secret(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Secret."""
    return [name_of(obj), obj.get("type", ""), len(field(obj, "data")), age_of(obj, now)]


def resource_quota(obj: Document, now: float) -> list[Any]:
    """Return the cells of a ResourceQuota."""
    status = field(obj, "status")
    used = field(status, "used")
    shown: dict[bool, list[str]] = {False: [], True: []}
    for resource, hard in sorted(field(status, "hard").items()):
        shown[resource.startswith("limits.")].append(f"{resource}: {used.get(resource, 0)}/{hard}")
    return [name_of(obj), ", ".join(shown[False]), ", ".join(shown[True]), age_of(obj, now)]


def lease(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Lease."""
    return [name_of(obj), field(obj, "spec").get("holderIdentity", ""), age_of(obj, now)]


def role_binding(obj: Document, now: float) -> list[Any]:
    """Return the cells of a RoleBinding or ClusterRoleBinding."""
    reference = field(obj, "roleRef")
    found: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in items(obj, "subjects"):
        name = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        if subject.get("kind") in found:
            found[subject["kind"]].append(name)
    return [
        name_of(obj),
        f"{reference.get('kind', '')}/{reference.get('name', '')}",
        age_of(obj, now),
        *(", ".join(names) for names in found.values()),
    ]


def priority_class(obj: Document, now: float) -> list[Any]:
    """Return the cells of a PriorityClass."""
    return [
        name_of(obj),
        obj.get("value", 0),
        bool(obj.get("globalDefault")),
        age_of(obj, now),
        obj.get("preemptionPolicy", ""),
    ]


_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(modes: Any) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _volume_phase(obj: Document) -> str:
    if obj["metadata"].get("deletionTimestamp") is not None:
        return "Terminating"
    return str(field(obj, "status").get("phase", ""))


def persistent_volume(obj: Document, now: float) -> list[Any]:
    """Return the cells of a PersistentVolume."""
    spec = field(obj, "spec")
    claim = field(spec, "claimRef")
    return [
        name_of(obj),
        str(field(spec, "capacity").get("storage", "0")),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _volume_phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or _UNSET,
        field(obj, "status").get("reason", ""),
        age_of(obj, now),
        spec.get("volumeMode") or _UNSET,
    ]


def persistent_volume_claim(obj: Document, now: float) -> list[Any]:
    """Return the cells of a PersistentVolumeClaim."""
    spec, status = field(obj, "spec"), field(obj, "status")
    bound = bool(spec.get("volumeName"))
    return [
        name_of(obj),
        _volume_phase(obj),
        spec.get("volumeName", ""),
        str(field(status, "capacity").get("storage", "0")) if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or _UNSET,
        age_of(obj, now),
        spec.get("volumeMode") or _UNSET,
    ]


def storage_class(obj: Document, now: float) -> list[Any]:
    """Return the cells of a StorageClass."""
    return [
        _with_default(obj, "storageclass.kubernetes.io/is-default-class"),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age_of(obj, now),
    ]
