"""Rules for pods and pod templates (``pkg/apis/core/validation/validation.go``)."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from . import causes as why
from .codec import clone
from .defaults_pod import field, items
from .names import (
    label_fault,
    label_value_fault,
    port_name_fault,
    qualified_name_fault,
    relaxed_env_var_name_fault,
    subdomain_fault,
)
from .quantity import parse
from .validation_meta import annotation_rules, label_selector, labels
from .validation_volumes import (
    descending_path,
    field_reference,
    key_reference,
    resource_reference,
    volumes,
)

if TYPE_CHECKING:
    from .causes import Cause

__all__ = ["container_names", "pod", "pod_spec", "pod_template", "pod_update", "port_or_name"]

Document = dict[str, Any]

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MAX_INT32 = 2**31 - 1
_PORT_RANGE = "must be between 1 and 65535, inclusive"
_STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_NATIVE_PREFIXES = ("requests.", "kubernetes.io/")


def port(found: list[Cause], path: str, value: Any) -> None:
    """A port number."""
    if not 1 <= value <= 65535:
        found.append(why.invalid(path, value, _PORT_RANGE))


def port_or_name(found: list[Cause], path: str, value: Any) -> None:
    """A port number or the name of one."""
    if type(value) is str:
        fault = port_name_fault(value)
        if fault:
            found.append(why.invalid(path, value, fault))
    else:
        port(found, path, value or 0)


def _one_of(
    found: list[Cause], document: Document, key: str, path: str, supported: tuple[str, ...]
) -> None:
    value = document.get(key)
    if value is not None and value not in supported:
        found.append(why.not_supported(f"{path}.{key}", value, supported))


def _label(found: list[Cause], document: Document, key: str, path: str) -> None:
    value = document.get(key)
    if value:
        fault = label_fault(value)
        if fault:
            found.append(why.invalid(f"{path}.{key}", value, fault))


def _subdomain(found: list[Cause], document: Document, key: str, path: str) -> None:
    value = document.get(key)
    if value:
        fault = subdomain_fault(value)
        if fault:
            found.append(why.invalid(f"{path}.{key}", value, fault))


# --- containers ---------------------------------------------------------------------------------


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
        _one_of(found, entry, "protocol", here, _PROTOCOLS)


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
        if name and name not in known:
            found.append(why.not_found(f"{here}.name", name))
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


def _resource_name_fault(name: str) -> str:
    fault = qualified_name_fault(name)
    if fault:
        return fault
    if "/" not in name:
        if name in _STANDARD_RESOURCES or name.startswith("hugepages-"):
            return ""
        return "must be a standard resource type or fully qualified"
    if name.startswith("requests."):
        return "doesn't follow extended resource name standard"
    return ""


def _resources(found: list[Cause], container: Document, path: str) -> None:
    resources = container.get("resources")
    if not resources:
        return
    limits, requests = field(resources, "limits"), field(resources, "requests")
    for kind, values in (("limits", limits), ("requests", requests)):
        for name, value in values.items():
            here = f"{path}.resources.{kind}[{name}]"
            fault = _resource_name_fault(name)
            if fault:
                found.append(why.invalid(here, name, fault))
            number = parse(value)
            if number < 0:
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
    found.extend(
        why.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
        for kind in kinds[1:]
    )
    here, action = f"{path}.{kinds[0]}", field(document, kinds[0])
    if kinds[0] == "exec":
        if not action.get("command"):
            found.append(why.required(f"{here}.command"))
    elif kinds[0] == "httpGet":
        port_or_name(found, f"{here}.port", action.get("port"))
        _one_of(found, action, "scheme", here, ("HTTP", "HTTPS"))
    elif kinds[0] == "tcpSocket":
        port_or_name(found, f"{here}.port", action.get("port"))
    elif kinds[0] == "grpc":
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
    found: list[Cause], container: Document, known: dict[str, Document], path: str
) -> None:
    """What holds of every kind of container."""
    name = container.get("name")
    if name:
        fault = label_fault(name)
        if fault:
            found.append(why.invalid(f"{path}.name", name, fault))
    if not container.get("image"):
        found.append(why.required(f"{path}.image"))
    _one_of(found, container, "terminationMessagePolicy", path, ("File", "FallbackToLogsOnError"))
    _one_of(found, container, "imagePullPolicy", path, ("Always", "IfNotPresent", "Never"))
    if "ports" in container:
        _ports(found, container, path)
    if "env" in container:
        _env(found, container, path)
    if "envFrom" in container:
        _env_from(found, container, path)
    if "volumeMounts" in container:
        _mounts(found, container, known, path)
    if "resources" in container:
        _resources(found, container, path)


_RESTART_POLICIES = ("Always", "Never", "OnFailure")


def _restart_rules(found: list[Cause], container: Document, path: str) -> None:
    rules = container.get("restartPolicyRules")
    policy = container.get("restartPolicy")
    if rules and policy is None:
        detail = "must specify restartPolicy when restart rules are used"
        found.append(why.required(f"{path}.restartPolicy", detail))
    _one_of(found, container, "restartPolicy", path, _RESTART_POLICIES)
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


def _containers(
    found: list[Cause], spec: Document, known: dict[str, Document], path: str, grace: int | None
) -> None:
    here = f"{path}.containers"
    containers = list(items(spec, "containers"))
    if not containers:
        found.append(why.required(here))
        return
    names: set[str] = set()
    for index, container in enumerate(containers):
        place = f"{here}[{index}]"
        _container(found, container, known, place)
        name = container.get("name", "")
        if name in names:
            found.append(why.duplicate(f"{place}.name", name))
        names.add(name)
        _lifecycle(found, container, place, grace)
        _probes(found, container, place, grace)
        _restart_rules(found, container, place)
    _host_ports(found, list(enumerate(containers)), here)
    for index, container in enumerate(items(spec, "initContainers")):
        place = f"{path}.initContainers[{index}]"
        _container(found, container, known, place)
        name = container.get("name", "")
        if name in names:
            found.append(why.duplicate(f"{place}.name", name))
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
    for index, container in enumerate(items(spec, "ephemeralContainers")):
        place = f"{path}.ephemeralContainers[{index}]"
        _container(found, container, known, place)
        name = container.get("name", "")
        if name in names:
            found.append(why.duplicate(f"{place}.name", name))
        names.add(name)
        for key in ("lifecycle", "ports", "resources", *_PROBES):
            if container.get(key):
                detail = "cannot be set for an Ephemeral Container"
                found.append(why.forbidden(f"{place}.{key}", detail))


def container_names(spec: Document) -> set[str]:
    """Names of the containers and init containers of a pod spec."""
    return {
        container.get("name", "")
        for key in ("containers", "initContainers")
        for container in items(spec, key)
    }


# --- pods ---------------------------------------------------------------------------------------


def _address(found: list[Cause], value: str, path: str) -> None:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        found.append(why.invalid(path, value, detail))


_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")


def _tolerations(found: list[Cause], spec: Document, path: str) -> None:
    for index, toleration in enumerate(items(spec, "tolerations")):
        here = f"{path}.tolerations[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        effect, value = toleration.get("effect", ""), toleration.get("value", "")
        if key:
            fault = qualified_name_fault(key)
            if fault:
                found.append(why.invalid(f"{here}.key", key, fault))
        elif operator != "Exists":
            detail = (
                "operator must be Exists when `key` is empty, which means"
                ' "match all values and all keys"'
            )
            found.append(why.invalid(f"{here}.operator", operator, detail))
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            found.append(why.invalid(f"{here}.effect", effect, detail))
        if operator in ("", "Equal"):
            fault = label_value_fault(value)
            if fault:
                found.append(why.invalid(f"{here}.operator", value, fault))
        elif operator == "Exists":
            if value:
                detail = "value must be empty when `operator` is 'Exists'"
                found.append(why.invalid(f"{here}.operator", value, detail))
        else:
            found.append(why.not_supported(f"{here}.operator", operator, ("Equal", "Exists")))
        if effect and effect not in _EFFECTS:
            found.append(why.not_supported(f"{here}.effect", effect, _EFFECTS))


def _dns(found: list[Cause], spec: Document, path: str) -> None:
    policies = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    _one_of(found, spec, "dnsPolicy", path, policies)
    config = spec.get("dnsConfig")
    here = f"{path}.dnsConfig"
    if spec.get("dnsPolicy") == "None":
        if config is None:
            detail = "must provide `dnsConfig` when `dnsPolicy` is None"
            found.append(why.required(here, detail))
        elif not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            found.append(why.required(f"{here}.nameservers", detail))
    if config is None:
        return
    servers = config.get("nameservers") or []
    if len(servers) > 3:
        detail = "must not have more than 3 nameservers"
        found.append(why.invalid(f"{here}.nameservers", servers, detail))
    for index, server in enumerate(servers):
        _address(found, server, f"{here}.nameservers[{index}]")
    searches = config.get("searches") or []
    if len(searches) > 32:
        detail = "must not have more than 32 search paths"
        found.append(why.invalid(f"{here}.searches", searches, detail))


def _spread(found: list[Cause], spec: Document, path: str) -> None:
    for index, constraint in enumerate(items(spec, "topologySpreadConstraints")):
        here = f"{path}.topologySpreadConstraints[{index}]"
        skew = constraint.get("maxSkew", 0)
        if skew <= 0:
            found.append(why.invalid(f"{here}.maxSkew", skew, "must be greater than zero"))
        supported = ("DoNotSchedule", "ScheduleAnyway")
        _one_of(found, constraint, "whenUnsatisfiable", here, supported)
        label_selector(found, constraint.get("labelSelector"), f"{here}.labelSelector")


def _gates(found: list[Cause], spec: Document, path: str) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(items(spec, "schedulingGates")):
        here, name = f"{path}.schedulingGates[{index}]", gate.get("name", "")
        fault = qualified_name_fault(name)
        if fault:
            found.append(why.invalid(here, name, fault))
        if name in seen:
            found.append(why.duplicate(here, name))
        seen.add(name)


def _host_network(found: list[Cause], spec: Document, path: str, *, is_pod: bool) -> None:
    for index, container in enumerate(items(spec, "containers")):
        for position, entry in enumerate(items(container, "ports")):
            host, own = entry.get("hostPort", 0), entry.get("containerPort")
            if (is_pod or host) and host != own:
                here = f"{path}.containers[{index}].ports[{position}].hostPort"
                detail = "must match `containerPort` when `hostNetwork` is true"
                found.append(why.invalid(here, host, detail))


def pod_spec(found: list[Cause], spec: Document, path: str, *, is_pod: bool = False) -> None:
    """Rules for a pod spec.

    Args:
        found: extended in place.
        spec: defaulted and valid by its schema.
        path: of the spec.
        is_pod: whether it is a Pod's own, not a template's.
    """
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        detail = "must be greater than or equal to 0"
        found.append(why.invalid(f"{path}.terminationGracePeriodSeconds", grace, detail))
    known = volumes(found, spec, f"{path}.volumes") if "volumes" in spec else {}
    _containers(found, spec, known, path, grace)
    _one_of(found, spec, "restartPolicy", path, ("Always", "OnFailure", "Never"))
    if "dnsConfig" in spec or spec.get("dnsPolicy") != "ClusterFirst":
        _dns(found, spec, path)
    for key in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        _subdomain(found, spec, key, path)
    for key in ("hostname", "subdomain"):
        _label(found, spec, key, path)
    if "nodeSelector" in spec:
        labels(found, spec["nodeSelector"], f"{path}.nodeSelector")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        detail = f"must be between 1 and {_MAX_INT32}, inclusive"
        found.append(why.invalid(f"{path}.activeDeadlineSeconds", deadline, detail))
    if "tolerations" in spec:
        _tolerations(found, spec, path)
    for index, alias in enumerate(items(spec, "hostAliases")):
        here = f"{path}.hostAliases[{index}]"
        _address(found, alias.get("ip", ""), f"{here}.ip")
        for position, hostname in enumerate(alias.get("hostnames") or ()):
            fault = subdomain_fault(hostname)
            if fault:
                found.append(why.invalid(f"{here}.hostnames[{position}]", hostname, fault))
    for index, gate in enumerate(items(spec, "readinessGates")):
        name = gate.get("conditionType", "")
        fault = qualified_name_fault(name)
        if fault:
            here = f"{path}.readinessGates[{index}].conditionType"
            found.append(why.invalid(here, name, fault))
    if "schedulingGates" in spec:
        _gates(found, spec, path)
    if "topologySpreadConstraints" in spec:
        _spread(found, spec, path)
    if spec.get("hostNetwork"):
        _host_network(found, spec, path, is_pod=is_pod)
    _one_of(found, spec, "preemptionPolicy", path, ("Never", "PreemptLowerPriority"))


def pod_template(found: list[Cause], template: Document, path: str) -> None:
    """Rules for a pod template."""
    metadata = field(template, "metadata")
    labels(found, field(metadata, "labels"), f"{path}.metadata.labels")
    annotation_rules(found, field(metadata, "annotations"), f"{path}.metadata.annotations")
    spec = field(template, "spec")
    pod_spec(found, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        found.append(why.forbidden(f"{path}.spec.ephemeralContainers", detail))


def pod(found: list[Cause], obj: Document) -> None:
    """Rules for a Pod."""
    spec = obj.get("spec")
    if spec is None:
        found.append(why.required("spec.containers"))
        return
    pod_spec(found, spec, "spec", is_pod=True)
    if spec.get("ephemeralContainers") and not obj["metadata"].get("uid"):
        detail = "cannot be set on create"
        found.append(why.forbidden("spec.ephemeralContainers", detail))


_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_update(found: list[Cause], new: Document, old: Document) -> None:
    """What may change in the spec of a Pod.

    ``spec.nodeName`` is set by binding, ephemeral containers and resources by their subresources;
    those writes do not come here with another old value.
    """
    spec, before = field(new, "spec"), field(old, "spec")
    if spec == before:
        return
    for key in ("containers", "initContainers"):
        count = len(list(items(before, key)))
        if len(list(items(spec, key))) != count:
            detail = "pod updates may not add or remove containers"
            found.append(why.forbidden(f"spec.{key}", detail))
            return
        for index, container in enumerate(items(spec, key)):
            image = container.get("image", "")
            if image.strip() != image:
                detail = "must not have leading or trailing whitespace"
                found.append(why.invalid(f"spec.{key}[{index}].image", image, detail))
    deadline, previous = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    here = "spec.activeDeadlineSeconds"
    if deadline is None and previous is not None:
        found.append(
            why.invalid(here, None, "must not update from a positive integer to nil value")
        )
        return
    if deadline is not None and previous is not None and deadline > previous:
        detail = "must be less than or equal to previous value"
        found.append(why.invalid(here, deadline, detail))
        return
    _added_tolerations(found, spec, before)
    _removed_gates(found, spec, before)
    if _without_updatable(spec, before) != before:
        detail = f"pod updates may not change fields other than {_UPDATABLE}\n"
        changed = sorted(
            key
            for key in {*spec, *before}
            if _without_updatable(spec, before).get(key) != before.get(key)
        )
        found.append(why.forbidden("spec", detail + "".join(f"- spec.{key}\n" for key in changed)))


def _added_tolerations(found: list[Cause], spec: Document, before: Document) -> None:
    def bare(toleration: Document) -> Document:
        return {key: item for key, item in toleration.items() if key != "tolerationSeconds"}

    present = [bare(toleration) for toleration in items(spec, "tolerations")]
    if not all(bare(toleration) in present for toleration in items(before, "tolerations")):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        found.append(why.forbidden("spec.tolerations", detail))


def _removed_gates(found: list[Cause], spec: Document, before: Document) -> None:
    known = {gate.get("name") for gate in items(before, "schedulingGates")}
    for index, gate in enumerate(items(spec, "schedulingGates")):
        if gate.get("name") not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            found.append(why.forbidden(f"spec.schedulingGates[{index}].name", detail))


def _without_updatable(spec: Document, before: Document) -> Document:
    """The spec with everything that may change set back to what it was."""
    result = clone(spec)
    for key in ("containers", "initContainers"):
        for container, was in zip(items(result, key), items(before, key), strict=True):
            container["image"] = was.get("image")
    keys = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    if before.get("terminationGracePeriodSeconds", 0) < 0:
        keys.append("terminationGracePeriodSeconds")
    if before.get("schedulingGates"):
        keys += ["nodeSelector", "affinity"]
    for key in keys:
        if key in before:
            result[key] = before[key]
        else:
            result.pop(key, None)
    typed: Document = result
    return typed
