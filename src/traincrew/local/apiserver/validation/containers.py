"""Rules for the containers of a pod (``pkg/apis/core/validation/validation.go``)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import (
    label_fault,
    port_name_fault,
    qualified_name_fault,
    relaxed_env_var_name_fault,
    subdomain_fault,
)
from traincrew.local.quantity import parse

from .ephemeral import ephemeral_rules
from .security import container_security
from .volumes import descending_path, field_reference, key_reference, resource_reference

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "COMPUTE_RESOURCES",
    "KNOWN_RESOURCES",
    "container_names",
    "containers",
    "one_of",
    "port",
    "port_or_name",
    "resource_name_faults",
]

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PORT_RANGE = "must be between 1 and 65535, inclusive"
COMPUTE_RESOURCES = ("cpu", "memory", "ephemeral-storage")
"""Resources any container can request, besides huge pages and extended resources."""
KNOWN_RESOURCES = frozenset(
    (
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
        "storage",
        "requests.storage",
        *(f"{kind}.{name}" for kind in ("limits", "requests") for name in COMPUTE_RESOURCES),
    )
)
"""Known resource names that no container can request: those of quotas."""


def port(found: list[Cause], path: str, value: Any) -> None:
    """Validate a port number."""
    if not 1 <= value <= 65535:
        found.append(why.invalid(path, value, _PORT_RANGE))


def port_or_name(found: list[Cause], path: str, value: Any) -> None:
    """Validate a port number or port name."""
    if type(value) is str:
        fault = port_name_fault(value)
        if fault:
            found.append(why.invalid(path, value, fault))
    else:
        port(found, path, value or 0)


def one_of(
    found: list[Cause], document: Document, key: str, path: str, supported: tuple[str, ...]
) -> None:
    """Validate a field with a fixed set of values."""
    value = document.get(key)
    if value is not None and value not in supported:
        found.append(why.not_supported(f"{path}.{key}", value, supported))


def _ports(found: list[Cause], container: Document, path: str) -> None:
    names: set[str] = set()
    for index, entry in enumerate(items(container, "ports")):
        here = f"{path}.ports[{index}]"
        name = entry.get("name")
        if name:
            fault = port_name_fault(name)
            if fault:
                found.append(why.invalid(f"{here}.name", name, fault))
            elif name in names:
                found.append(why.duplicate(f"{here}.name", name))
            names.add(name)
        number = entry.get("containerPort")
        if not number:
            found.append(why.required(f"{here}.containerPort"))
        else:
            port(found, f"{here}.containerPort", number)
        if entry.get("hostPort"):
            port(found, f"{here}.hostPort", entry["hostPort"])
        one_of(found, entry, "protocol", here, _PROTOCOLS)


_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def _env(found: list[Cause], container: Document, path: str) -> None:
    for index, variable in enumerate(container["env"]):
        name = variable.get("name")
        if name:
            fault = relaxed_env_var_name_fault(name)
            if fault:
                found.append(why.invalid(f"{path}.env[{index}].name", name, fault))
        source = variable.get("valueFrom")
        if source is None:
            continue
        here = f"{path}.env[{index}].valueFrom"
        kinds = [kind for kind in _SOURCES if kind in source]
        if "fieldRef" in source:
            field_reference(found, source["fieldRef"], f"{here}.fieldRef")
        if "resourceFieldRef" in source:
            resource_reference(found, source["resourceFieldRef"], f"{here}.resourceFieldRef")
        for kind in ("configMapKeyRef", "secretKeyRef"):
            if kind in source:
                key_reference(found, source[kind], f"{here}.{kind}")
        if not kinds:
            words = ", ".join(f"`{kind}`" for kind in _SOURCES[:-1])
            detail = f"must specify one of: {words} or `{_SOURCES[-1]}`"
            found.append(why.invalid(here, "", detail))
        elif variable.get("value"):
            detail = "may not be specified when `value` is not empty"
            found.append(why.invalid(here, "", detail))
        elif len(kinds) > 1:
            detail = "may not have more than one field specified at a time"
            found.append(why.invalid(here, "", detail))


def _env_from(found: list[Cause], container: Document, path: str) -> None:
    for index, entry in enumerate(items(container, "envFrom")):
        here = f"{path}.envFrom[{index}]"
        prefix = entry.get("prefix")
        if prefix:
            fault = relaxed_env_var_name_fault(prefix)
            if fault:
                found.append(why.invalid(f"{here}.prefix", prefix, fault))
        kinds = [kind for kind in ("configMapRef", "secretRef") if kind in entry]
        for kind in kinds:
            name = entry[kind].get("name", "")
            fault = subdomain_fault(name)
            if not name:
                found.append(why.required(f"{here}.{kind}.name"))
            elif fault:
                found.append(why.invalid(f"{here}.{kind}.name", name, fault))
        if not kinds:
            detail = "must specify one of: `configMapRef` or `secretRef`"
            found.append(why.invalid(f"{path}.envFrom", "", detail))
        elif len(kinds) > 1:
            detail = "may not have more than one field specified at a time"
            found.append(why.invalid(f"{path}.envFrom", "", detail))


def _mounts(found: list[Cause], container: Document, known: dict[str, Document], path: str) -> None:
    places: set[str] = set()
    for index, mount in enumerate(container["volumeMounts"]):
        here = f"{path}.volumeMounts[{index}]"
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            found.append(why.required(f"{here}.name"))
        if name not in known:
            found.append(why.not_found(f"{here}.name", name))
        if not place:
            found.append(why.required(f"{here}.mountPath"))
        if place in places:
            found.append(why.invalid(f"{here}.mountPath", place, "must be unique"))
        places.add(place)
        inner, expression = mount.get("subPath"), mount.get("subPathExpr")
        if inner:
            descending_path(found, inner, f"{here}.subPath")
        if expression:
            if inner:
                detail = "subPathExpr and subPath are mutually exclusive"
                found.append(why.invalid(f"{here}.subPathExpr", expression, detail))
            descending_path(found, expression, f"{here}.subPathExpr")


@lru_cache(maxsize=1024)
def resource_name_faults(name: str) -> tuple[str, ...]:
    """Return the errors of a container's resource name."""
    fault = qualified_name_fault(name)
    if "/" not in name:
        if name in COMPUTE_RESOURCES or name.startswith("hugepages-"):
            return ()
        known = name in KNOWN_RESOURCES or name.startswith("requests.hugepages-")
        if not fault and not known:
            fault = "must be a standard resource type or fully qualified"
        where = "must be a standard resource for containers"
        return (fault, where) if fault else (where,)
    if name.startswith("requests."):
        return (*filter(None, (fault,)), "doesn't follow extended resource name standard")
    return (fault,) if fault else ()


def _resources(found: list[Cause], container: Document, path: str) -> None:
    resources = container.get("resources")
    if not resources:
        return
    limits, requests = field(resources, "limits"), field(resources, "requests")
    for kind, values in (("limits", limits), ("requests", requests)):
        for name, value in values.items():
            here = f"{path}.resources.{kind}[{name}]"
            found.extend(why.invalid(here, name, fault) for fault in resource_name_faults(name))
            number = parse(value)
            if number.numerator < 0:
                detail = "must be greater than or equal to 0"
                found.append(why.invalid(here, str(value), detail))
            elif name not in ("cpu", "memory", "ephemeral-storage") and number.denominator != 1:
                found.append(why.invalid(here, str(value), "must be an integer"))
    for name, value in requests.items():
        overcommit = "/" not in name and not name.startswith("hugepages-")
        limit = limits.get(name)
        here = f"{path}.resources.requests"
        if limit is None:
            if not overcommit:
                detail = "Limit must be set for non overcommitable resources"
                found.append(why.required(f"{path}.resources.limits", detail))
        elif value == limit:
            continue  # nearly always, and fractions take long to compare
        elif parse(value) > parse(limit):
            detail = f"must be less than or equal to {name} limit of {limit}"
            found.append(why.invalid(here, str(value), detail))
        elif not overcommit and parse(value) != parse(limit):
            detail = f"must be equal to {name} limit of {limit}"
            found.append(why.invalid(here, str(value), detail))


_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def _handler(found: list[Cause], document: Document, path: str, grace: int | None) -> None:
    kinds = [kind for kind in _HANDLERS if kind in document]
    if not kinds:
        found.append(why.required(path, "must specify a handler type"))
        return
    _action(found, kinds[0], field(document, kinds[0]), f"{path}.{kinds[0]}", grace)
    found.extend(
        why.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
        for kind in kinds[1:]
    )


def _action(found: list[Cause], kind: str, action: Document, here: str, grace: int | None) -> None:
    if kind == "exec":
        if not action.get("command"):
            found.append(why.required(f"{here}.command"))
    elif kind == "httpGet":
        port_or_name(found, f"{here}.port", action.get("port"))
        one_of(found, action, "scheme", here, ("HTTP", "HTTPS"))
    elif kind == "tcpSocket":
        port_or_name(found, f"{here}.port", action.get("port"))
    elif kind == "grpc":
        port(found, f"{here}.port", action.get("port", 0))
    else:
        seconds = action.get("seconds", 0)
        if grace is not None and not 0 <= seconds <= grace:
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            found.append(why.invalid(here, seconds, detail))


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def _probes(found: list[Cause], container: Document, path: str, grace: int | None) -> None:
    for name in _PROBES:
        probe = container.get(name)
        if probe is None:
            continue
        here = f"{path}.{name}"
        _handler(found, probe, here, grace)
        for key in (
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ):
            value = probe.get(key, 0)
            if value < 0:
                detail = "must be greater than or equal to 0"
                found.append(why.invalid(f"{here}.{key}", value, detail))
        own_grace = probe.get("terminationGracePeriodSeconds")
        if own_grace is not None:
            place = f"{here}.terminationGracePeriodSeconds"
            if name == "readinessProbe":
                found.append(why.invalid(place, own_grace, "must not be set for readinessProbes"))
            elif own_grace <= 0:
                found.append(why.invalid(place, own_grace, "must be greater than 0"))
        if name != "readinessProbe" and probe.get("successThreshold", 1) != 1:
            place = f"{here}.successThreshold"
            found.append(why.invalid(place, probe["successThreshold"], "must be 1"))


def _lifecycle(found: list[Cause], container: Document, path: str, grace: int | None) -> None:
    lifecycle = container.get("lifecycle")
    if lifecycle is None:
        return
    for name in ("postStart", "preStop"):
        if name in lifecycle:
            _handler(found, lifecycle[name], f"{path}.lifecycle.{name}", grace)


def _container(
    found: list[Cause],
    container: Document,
    known: dict[str, Document],
    path: str,
    *,
    host_users: bool,
) -> None:
    """Validate the fields common to all kinds of containers."""
    name = container.get("name")
    if name:
        fault = label_fault(name)
        if fault:
            found.append(why.invalid(f"{path}.name", name, fault))
    else:
        found.append(why.required(f"{path}.name"))
    if not container.get("image"):
        found.append(why.required(f"{path}.image"))
    one_of(found, container, "terminationMessagePolicy", path, ("File", "FallbackToLogsOnError"))
    if "ports" in container:
        _ports(found, container, path)
    if "env" in container:
        _env(found, container, path)
    if "envFrom" in container:
        _env_from(found, container, path)
    if "volumeMounts" in container:
        _mounts(found, container, known, path)
    one_of(found, container, "imagePullPolicy", path, ("Always", "IfNotPresent", "Never"))
    if "resources" in container:
        _resources(found, container, path)
    if "securityContext" in container:
        container_security(found, container, path, host_users=host_users)


_RESTART_POLICIES = ("Always", "Never", "OnFailure")


def _restart_rules(found: list[Cause], container: Document, path: str) -> None:
    rules = container.get("restartPolicyRules")
    policy = container.get("restartPolicy")
    if rules and policy is None:
        detail = "must specify restartPolicy when restart rules are used"
        found.append(why.required(f"{path}.restartPolicy", detail))
    one_of(found, container, "restartPolicy", path, _RESTART_POLICIES)
    for index, rule in enumerate(items(container, "restartPolicyRules")):
        if "exitCodes" not in rule:
            here = f"{path}.restartPolicyRules[{index}].exitCodes"
            found.append(why.required(here, "must be specified"))


def _host_ports(found: list[Cause], containers: list[tuple[int, Document]], path: str) -> None:
    taken: set[str] = set()
    for index, container in containers:
        for position, entry in enumerate(items(container, "ports")):
            number = entry.get("hostPort")
            if number:
                key = f"{entry.get('protocol', 'TCP')}/{entry.get('hostIP', '')}/{number}"
                if key in taken:
                    here = f"{path}[{index}].ports[{position}].hostPort"
                    found.append(why.duplicate(here, key))
                taken.add(key)


def containers(
    found: list[Cause], spec: Document, known: dict[str, Document], path: str, grace: int | None
) -> None:
    """Validate all containers of a pod.

    Args:
        found: extended in place.
        spec: of the pod.
        known: its volumes by name.
        path: of the spec.
        grace: the pod's terminationGracePeriodSeconds.
    """
    here = f"{path}.containers"
    containers = list(items(spec, "containers"))
    if not containers:
        found.append(why.required(here))
    names: set[str] = set()
    host_users = spec.get("hostUsers") is not False
    for index, container in enumerate(containers):
        place = f"{here}[{index}]"
        _container(found, container, known, place, host_users=host_users)
        name = container.get("name", "")
        if name in names:
            found.append(why.duplicate(f"{place}.name", name))
        elif name:
            names.add(name)
        _lifecycle(found, container, place, grace)
        _probes(found, container, place, grace)
        _restart_rules(found, container, place)
    _host_ports(found, list(enumerate(containers)), here)
    for index, container in enumerate(items(spec, "initContainers")):
        place = f"{path}.initContainers[{index}]"
        _container(found, container, known, place, host_users=host_users)
        name = container.get("name", "")
        if name in names:
            found.append(why.duplicate(f"{place}.name", name))
        elif name:
            names.add(name)
        _restart_rules(found, container, place)
        _host_ports(found, [(index, container)], f"{path}.initContainers")
        if container.get("restartPolicy") == "Always":
            _lifecycle(found, container, place, grace)
            _probes(found, container, place, grace)
            continue
        for key in ("lifecycle", *_PROBES):
            if key in container:
                detail = "may not be set for init containers without restartPolicy=Always"
                found.append(why.forbidden(f"{place}.{key}", detail))
    others = frozenset(names)
    for index, container in enumerate(items(spec, "ephemeralContainers")):
        place = f"{path}.ephemeralContainers[{index}]"
        _container(found, container, known, place, host_users=host_users)
        name = container.get("name", "")
        if name in names:
            found.append(why.duplicate(f"{place}.name", name))
        elif name:
            names.add(name)
        ephemeral_rules(found, container, others, place)


def container_names(spec: Document) -> set[str]:
    """Return the names of the containers and init containers of a pod spec."""
    return {
        container.get("name", "")
        for key in ("containers", "initContainers")
        for container in items(spec, key)
    }
