"""The cells of each built-in kind, wide ones included.

Every function takes an object and the time (seconds since the epoch). Objects come from storage,
so their shapes are right; any field may be absent.
"""

from __future__ import annotations

from typing import Any

from .defaults_pod import field, items
from .durations import age, between, seconds_of

__all__ = [
    "autoscaler",
    "config_map",
    "controller_revision",
    "cron_job",
    "daemon_set",
    "deployment",
    "disruption_budget",
    "endpoint_slice",
    "endpoints",
    "event",
    "ingress",
    "ingress_class",
    "job",
    "lease",
    "name_and_age",
    "name_and_creation",
    "namespace",
    "network_policy",
    "node",
    "persistent_volume",
    "persistent_volume_claim",
    "pod",
    "pod_template",
    "priority_class",
    "replica_set",
    "resource_quota",
    "role_binding",
    "secret",
    "service",
    "stateful_set",
    "storage_class",
]

Document = dict[str, Any]
_NONE = "<none>"
_UNSET = "<unset>"
_SHOWN = 3  # addresses, ports or hosts listed before "+ N more..."


def _name(obj: Document) -> str:
    name: str = obj["metadata"]["name"]
    return name


def _age(obj: Document, now: float) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _labels(labels: Document) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or _NONE


def _selector(selector: Any) -> str:
    """A label selector as text."""
    if type(selector) is not dict:
        return _NONE
    operators = {"In": "in", "NotIn": "notin"}
    terms = [(key, f"{key}={value}") for key, value in field(selector, "matchLabels").items()]
    for expression in items(selector, "matchExpressions"):
        key, operator = expression.get("key", ""), expression.get("operator", "")
        if operator == "Exists":
            shown = key
        elif operator == "DoesNotExist":
            shown = f"!{key}"
        else:
            values = ",".join(sorted(expression.get("values", ())))
            shown = f"{key} {operators.get(operator, operator)} ({values})"
        terms.append((key, shown))
    return ",".join(shown for _, shown in sorted(terms)) or _NONE


def _containers(spec: Document) -> list[Any]:
    """The cells Containers and Images."""
    containers = list(items(spec, "containers"))
    return [
        ",".join(container.get("name", "") for container in containers),
        ",".join(container.get("image", "") for container in containers),
    ]


def _template_spec(obj: Document) -> Document:
    return field(obj, "spec", "template", "spec")


def _conditions(obj: Document) -> dict[str, str]:
    """Status of each condition by type."""
    found: dict[str, str] = {}
    for condition in items(obj, "status", "conditions"):
        found.setdefault(condition.get("type", ""), condition.get("status", ""))
    return found


def name_and_age(obj: Document, now: float) -> list[Any]:
    """Kinds with nothing else to show."""
    return [_name(obj), _age(obj, now)]


def name_and_creation(obj: Document, _now: float) -> list[Any]:
    """Kinds without a printer."""
    return [_name(obj), obj["metadata"].get("creationTimestamp")]


# --- pods ---------------------------------------------------------------------------------------


def pod(obj: Document, now: float) -> list[Any]:
    """A Pod; its status column tells more than its phase."""
    spec, status = field(obj, "spec"), field(obj, "status")
    ready, total, reason, restarts, last_restart = _pod_summary(obj, spec, status)
    shown = str(restarts)
    if restarts and last_restart is not None:
        shown = f"{restarts} ({age(last_restart, now)} ago)"
    addresses = [address.get("ip") for address in items(status, "podIPs")]
    gates = [gate.get("conditionType", "") for gate in items(spec, "readinessGates")]
    conditions = _conditions(obj)
    open_gates = sum(conditions.get(gate) == "True" for gate in gates)
    return [
        _name(obj),
        f"{ready}/{total}",
        reason,
        shown,
        _age(obj, now),
        (addresses[0] if addresses else status.get("podIP")) or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        f"{open_gates}/{len(gates)}" if gates else _NONE,
    ]


class _Restarts:
    """How often containers were restarted, and when last."""

    def __init__(self) -> None:
        self.count = 0
        self.last: str | None = None

    def add(self, status: Document) -> None:
        self.count += status.get("restartCount", 0)
        finished = field(status, "lastState", "terminated").get("finishedAt")
        moment, last = seconds_of(finished), seconds_of(self.last)
        if moment is not None and (last is None or last < moment):
            self.last = finished


def _pod_summary(
    obj: Document, spec: Document, status: Document
) -> tuple[int, int, str, int, str | None]:
    """Ready containers, all containers, status word, restarts, time of the last one."""
    reason = status.get("reason") or status.get("phase", "")
    for condition in items(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    sidecars = {
        container.get("name")
        for container in items(spec, "initContainers")
        if container.get("restartPolicy") == "Always"
    }
    total = len(list(items(spec, "containers"))) + len(sidecars)
    ready = 0
    restarts, sidecar_restarts = _Restarts(), _Restarts()
    initializing = False
    init_count = len(list(items(spec, "initContainers")))
    for index, container in enumerate(items(status, "initContainerStatuses")):
        restarts.add(container)
        sidecar = container.get("name") in sidecars
        if sidecar:
            sidecar_restarts.add(container)
        state = field(container, "state")
        terminated = state.get("terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        waiting = field(state, "waiting").get("reason")
        if terminated is not None:
            reason = "Init:" + _ending(terminated)
        elif waiting and waiting != "PodInitializing":
            reason = f"Init:{waiting}"
        else:
            reason = f"Init:{index}/{init_count}"
        initializing = True
        break
    conditions = _conditions(obj)
    if not initializing or conditions.get("Initialized") == "True":
        restarts = sidecar_restarts
        running_ready, reason = _main_containers(status, reason, restarts, conditions)
        ready += running_ready
    if obj["metadata"].get("deletionTimestamp") is not None:
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            reason = "Terminating"
    return ready, total, reason, restarts.count, restarts.last


def _main_containers(
    status: Document, reason: str, restarts: _Restarts, conditions: dict[str, str]
) -> tuple[int, str]:
    """How many run and are ready, and the status word they give the pod."""
    ready = 0
    failure = ""
    for container in reversed(list(items(status, "containerStatuses"))):
        restarts.add(container)
        state = field(container, "state")
        terminated = state.get("terminated")
        if field(state, "waiting").get("reason"):
            reason = state["waiting"]["reason"]
        elif terminated is not None:
            reason = _ending(terminated)
            if terminated.get("exitCode"):
                failure = reason
        elif container.get("ready") and "running" in state:
            ready += 1
    if reason == "Completed":
        if ready and conditions.get("Ready") == "True":
            reason = "Running"
        elif failure:
            reason = failure
        elif ready:
            reason = "NotReady"
    return ready, reason


def _ending(terminated: Document) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def pod_template(obj: Document, _now: float) -> list[Any]:
    """A PodTemplate."""
    template = field(obj, "template")
    labels = field(template, "metadata", "labels")
    return [_name(obj), *_containers(field(template, "spec")), _labels(labels)]


# --- workloads ----------------------------------------------------------------------------------


def replica_set(obj: Document, now: float) -> list[Any]:
    """A ReplicaSet or a ReplicationController."""
    status, selector = field(obj, "status"), field(obj, "spec").get("selector")
    plain = obj.get("kind") == "ReplicationController"
    return [
        _name(obj),
        field(obj, "spec").get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        _age(obj, now),
        *_containers(_template_spec(obj)),
        _labels(selector or {}) if plain else _selector(selector),
    ]


def deployment(obj: Document, now: float) -> list[Any]:
    """A Deployment."""
    spec, status = field(obj, "spec"), field(obj, "status")
    return [
        _name(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _age(obj, now),
        *_containers(_template_spec(obj)),
        _selector(spec.get("selector")),
    ]


def stateful_set(obj: Document, now: float) -> list[Any]:
    """A StatefulSet."""
    ready = field(obj, "status").get("readyReplicas", 0)
    return [
        _name(obj),
        f"{ready}/{field(obj, 'spec').get('replicas', 0)}",
        _age(obj, now),
        *_containers(_template_spec(obj)),
    ]


def daemon_set(obj: Document, now: float) -> list[Any]:
    """A DaemonSet."""
    status = field(obj, "status")
    numbers = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        _name(obj),
        *(status.get(number, 0) for number in numbers),
        _labels(field(_template_spec(obj), "nodeSelector")),
        _age(obj, now),
        *_containers(_template_spec(obj)),
        _selector(field(obj, "spec").get("selector")),
    ]


def _job_status(obj: Document) -> str:
    conditions = _conditions(obj)
    for name in ("Complete", "Failed"):
        if conditions.get(name) == "True":
            return name
    if obj["metadata"].get("deletionTimestamp") is not None:
        return "Terminating"
    for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if conditions.get(name) == "True":
            return name
    return "Running"


def job(obj: Document, now: float) -> list[Any]:
    """A Job."""
    spec, status = field(obj, "spec"), field(obj, "status")
    succeeded, wanted = status.get("succeeded", 0), spec.get("completions")
    completions = f"{succeeded}/{1 if wanted is None else wanted}"
    if wanted is None and spec.get("parallelism", 0) > 1:
        completions += f" of {spec['parallelism']}"
    return [
        _name(obj),
        _job_status(obj),
        completions,
        between(status.get("startTime"), status.get("completionTime"), now),
        _age(obj, now),
        *_containers(_template_spec(obj)),
        _selector(spec.get("selector")),
    ]


def cron_job(obj: Document, now: float) -> list[Any]:
    """A CronJob."""
    spec, status = field(obj, "spec"), field(obj, "status")
    last = status.get("lastScheduleTime")
    inner = field(spec, "jobTemplate", "spec")
    return [
        _name(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or _NONE,
        "True" if spec.get("suspend") else "False",
        len(status.get("active", ())),
        _NONE if last is None else age(last, now),
        _age(obj, now),
        *_containers(field(inner, "template", "spec")),
        _selector(inner.get("selector")),
    ]


def controller_revision(obj: Document, now: float) -> list[Any]:
    """A ControllerRevision."""
    owner = _NONE
    for reference in items(obj, "metadata", "ownerReferences"):
        if reference.get("controller"):
            group = reference["apiVersion"].rpartition("/")[0]
            kind = f"{reference['kind']}.{group}" if group else reference["kind"]
            owner = f"{kind.lower()}/{reference['name']}"
    return [_name(obj), owner, obj.get("revision", 0), _age(obj, now)]


def disruption_budget(obj: Document, now: float) -> list[Any]:
    """A PodDisruptionBudget."""
    spec = field(obj, "spec")
    return [
        _name(obj),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        field(obj, "status").get("disruptionsAllowed", 0),
        _age(obj, now),
    ]


def autoscaler(obj: Document, now: float) -> list[Any]:
    """A HorizontalPodAutoscaler; nothing measures its targets here."""
    spec = field(obj, "spec")
    target = field(spec, "scaleTargetRef")
    return [
        _name(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        "<unknown>",
        str(spec.get("minReplicas", _UNSET)),
        spec.get("maxReplicas", 0),
        field(obj, "status").get("currentReplicas", 0),
        _age(obj, now),
    ]


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
    return ",".join(addresses) or _NONE


def service(obj: Document, now: float) -> list[Any]:
    """A Service."""
    spec = field(obj, "spec")
    ports = []
    for port in items(spec, "ports"):
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP") or _NONE]
    return [
        _name(obj),
        spec.get("type", ""),
        addresses[0],
        _external_address(obj, spec),
        ",".join(ports) or _NONE,
        _age(obj, now),
        _labels(field(spec, "selector")),
    ]


def _shortened(values: list[str], empty: str) -> str:
    shown = ",".join(values[:_SHOWN])
    if len(values) > _SHOWN:
        return f"{shown} + {len(values) - _SHOWN} more..."
    return shown or empty


def _host_port(address: str, port: Any) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def endpoints(obj: Document, now: float) -> list[Any]:
    """An Endpoints object."""
    shown: list[str] = []
    for subset in items(obj, "subsets"):
        addresses = [address.get("ip", "") for address in items(subset, "addresses")]
        ports = list(items(subset, "ports"))
        if not ports:
            shown += addresses
        for port in ports:
            shown += [_host_port(address, port.get("port")) for address in addresses]
    return [_name(obj), _shortened(shown, _NONE), _age(obj, now)]


def endpoint_slice(obj: Document, now: float) -> list[Any]:
    """An EndpointSlice."""
    ports = [str(port.get("port") or port.get("name") or "*") for port in items(obj, "ports")]
    addresses = [
        address for endpoint in items(obj, "endpoints") for address in endpoint.get("addresses", ())
    ]
    return [
        _name(obj),
        obj.get("addressType", ""),
        _shortened(ports, _UNSET),
        _shortened(addresses, _UNSET),
        _age(obj, now),
    ]


def ingress(obj: Document, now: float) -> list[Any]:
    """An Ingress."""
    spec = field(obj, "spec")
    hosts = [rule["host"] for rule in items(spec, "rules") if rule.get("host")]
    return [
        _name(obj),
        spec.get("ingressClassName") or _NONE,
        _shortened(hosts, "*"),
        ",".join(_balancer(obj)),
        "80, 443" if spec.get("tls") else "80",
        _age(obj, now),
    ]


def ingress_class(obj: Document, now: float) -> list[Any]:
    """An IngressClass."""
    spec = field(obj, "spec")
    parameters = field(spec, "parameters")
    shown = _NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        shown = f"{parameters.get('kind')}{group}/{parameters.get('name')}"
    annotation = "ingressclass.kubernetes.io/is-default-class"
    name = _with_default(obj, annotation)
    return [name, spec.get("controller", ""), shown, _age(obj, now)]


def _with_default(obj: Document, annotation: str) -> str:
    default = field(obj, "metadata", "annotations").get(annotation) == "true"
    return _name(obj) + (" (default)" if default else "")


def network_policy(obj: Document, now: float) -> list[Any]:
    """A NetworkPolicy."""
    return [_name(obj), _selector(field(obj, "spec").get("podSelector")), _age(obj, now)]


# --- cluster, configuration, storage ------------------------------------------------------------

_ROLE_PREFIX = "node-role.kubernetes.io/"


def node(obj: Document, now: float) -> list[Any]:
    """A Node."""
    status = field(obj, "status")
    info = field(status, "nodeInfo")
    condition = _conditions(obj).get("Ready")
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
        _name(obj),
        ",".join(words),
        ",".join(sorted(roles - {""})) or _NONE,
        _age(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", _NONE),
        addresses.get("ExternalIP", _NONE),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def event(obj: Document, now: float) -> list[Any]:
    """An Event."""
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
        _name(obj),
    ]


def namespace(obj: Document, now: float) -> list[Any]:
    """A Namespace."""
    return [_name(obj), field(obj, "status").get("phase", ""), _age(obj, now)]


def config_map(obj: Document, now: float) -> list[Any]:
    """A ConfigMap."""
    count = len(field(obj, "data")) + len(field(obj, "binaryData"))
    return [_name(obj), count, _age(obj, now)]


def secret(obj: Document, now: float) -> list[Any]:
    """A Secret."""
    return [_name(obj), obj.get("type", ""), len(field(obj, "data")), _age(obj, now)]


def resource_quota(obj: Document, now: float) -> list[Any]:
    """A ResourceQuota."""
    status = field(obj, "status")
    used = field(status, "used")
    shown: dict[bool, list[str]] = {False: [], True: []}
    for resource, hard in sorted(field(status, "hard").items()):
        shown[resource.startswith("limits.")].append(f"{resource}: {used.get(resource, 0)}/{hard}")
    return [_name(obj), ", ".join(shown[False]), ", ".join(shown[True]), _age(obj, now)]


def lease(obj: Document, now: float) -> list[Any]:
    """A Lease."""
    return [_name(obj), field(obj, "spec").get("holderIdentity", ""), _age(obj, now)]


def role_binding(obj: Document, now: float) -> list[Any]:
    """A RoleBinding or ClusterRoleBinding."""
    reference = field(obj, "roleRef")
    found: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in items(obj, "subjects"):
        name = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        if subject.get("kind") in found:
            found[subject["kind"]].append(name)
    return [
        _name(obj),
        f"{reference.get('kind', '')}/{reference.get('name', '')}",
        _age(obj, now),
        *(", ".join(names) for names in found.values()),
    ]


def priority_class(obj: Document, now: float) -> list[Any]:
    """A PriorityClass."""
    return [
        _name(obj),
        obj.get("value", 0),
        bool(obj.get("globalDefault")),
        _age(obj, now),
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
    """A PersistentVolume."""
    spec = field(obj, "spec")
    claim = field(spec, "claimRef")
    return [
        _name(obj),
        str(field(spec, "capacity").get("storage", "0")),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _volume_phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or _UNSET,
        field(obj, "status").get("reason", ""),
        _age(obj, now),
        spec.get("volumeMode") or _UNSET,
    ]


def persistent_volume_claim(obj: Document, now: float) -> list[Any]:
    """A PersistentVolumeClaim."""
    spec, status = field(obj, "spec"), field(obj, "status")
    bound = bool(spec.get("volumeName"))
    return [
        _name(obj),
        _volume_phase(obj),
        spec.get("volumeName", ""),
        str(field(status, "capacity").get("storage", "0")) if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or _UNSET,
        _age(obj, now),
        spec.get("volumeMode") or _UNSET,
    ]


def storage_class(obj: Document, now: float) -> list[Any]:
    """A StorageClass."""
    return [
        _with_default(obj, "storageclass.kubernetes.io/is-default-class"),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        _age(obj, now),
    ]
