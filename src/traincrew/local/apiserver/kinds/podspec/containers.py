"""Rules for the containers of a pod (``pkg/apis/core/validation/validation.go``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.fields import one_of, port_number
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import items
from traincrew.local.apiserver.values.names import (
    label_fault,
    port_name_fault,
    relaxed_env_var_name_fault,
    subdomain_fault,
)

from .ephemeral import ephemeral_rules
from .probes import PROBES, lifecycle, probes
from .resize import resize_policy
from .resources import container_resources
from .security import container_security
from .volumes import (
    PULL_POLICIES,
    descending_path,
    field_reference,
    key_reference,
    resource_reference,
)

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["container_names", "containers"]

_PROTOCOLS = ("SCTP", "TCP", "UDP")


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
            port_number(found, f"{here}.containerPort", number)
        if entry.get("hostPort"):
            port_number(found, f"{here}.hostPort", entry["hostPort"])
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
            descending_path(found, inner, f"{path}.volumeMounts.subPath")
        if expression:
            if inner:
                detail = "subPathExpr and subPath are mutually exclusive"
                found.append(why.invalid(f"{here}.subPathExpr", expression, detail))
            descending_path(found, expression, f"{path}.volumeMounts.subPathExpr")


def _container(
    found: list[Cause],
    container: Document,
    known: dict[str, Document],
    path: str,
    *,
    host_users: bool,
    restart_policy: str,
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
    one_of(found, container, "imagePullPolicy", path, PULL_POLICIES)
    if "resources" in container:
        container_resources(found, container, path)
    if "resizePolicy" in container:
        resize_policy(found, container, f"{path}.resizePolicy", restart_policy)
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


def _unique_name(found: list[Cause], container: Document, names: set[str], path: str) -> None:
    """Refuse a name of an earlier container of the pod; add it to their `names`."""
    name = container.get("name", "")
    if name in names:
        found.append(why.duplicate(f"{path}.name", name))
    elif name:
        names.add(name)


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
    of_pod: Any = {
        "host_users": spec.get("hostUsers") is not False,
        "restart_policy": spec.get("restartPolicy", "Always"),
    }
    for index, container in enumerate(containers):
        place = f"{here}[{index}]"
        _container(found, container, known, place, **of_pod)
        _unique_name(found, container, names, place)
        lifecycle(found, container, place, grace)
        probes(found, container, place, grace)
        _restart_rules(found, container, place)
    _host_ports(found, list(enumerate(containers)), here)
    for index, container in enumerate(items(spec, "initContainers")):
        place = f"{path}.initContainers[{index}]"
        _container(found, container, known, place, **of_pod)
        _unique_name(found, container, names, place)
        _restart_rules(found, container, place)
        _host_ports(found, [(index, container)], f"{path}.initContainers")
        if container.get("restartPolicy") == "Always":
            lifecycle(found, container, place, grace)
            probes(found, container, place, grace)
            continue
        for key in ("lifecycle", *PROBES):
            if key in container:
                detail = "may not be set for init containers without restartPolicy=Always"
                found.append(why.forbidden(f"{place}.{key}", detail))
    others = frozenset(names)
    for index, container in enumerate(items(spec, "ephemeralContainers")):
        place = f"{path}.ephemeralContainers[{index}]"
        _container(found, container, known, place, **of_pod)
        _unique_name(found, container, names, place)
        ephemeral_rules(found, container, others, place)


def container_names(spec: Document) -> set[str]:
    """Return the names of the containers and init containers of a pod spec."""
    return {
        container.get("name", "")
        for key in ("containers", "initContainers")
        for container in items(spec, key)
    }
