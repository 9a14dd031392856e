"""Quota usage of each kind of object. Pure.

Rules: ``k8s.io/kubernetes/pkg/quota/v1/evaluator/core``. Resources are named as upstream's
``count/`` quotas name them: ``pods``, ``jobs.batch``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from traincrew.local.quantity import canonical, parse
from traincrew.local.quotas.amounts import Amounts, add
from traincrew.local.quotas.podresources import is_pod_level, pod_total, resized

__all__ = [
    "charges",
    "counted_resources",
    "matching_names",
    "missing_requests",
    "quota_matches",
    "total",
    "usage",
]

Document = Mapping[str, Any]

PODS, SERVICES, CLAIMS = "pods", "services", "persistentvolumeclaims"
_ALIASED = frozenset({"configmaps", "resourcequotas", "replicationcontrollers", "secrets"})
"""Kinds that can also be counted by their plural alone, without ``count/``."""
_UNCOUNTED = frozenset({"events", "events.events.k8s.io"})
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES = frozenset(
    ("pods", *_COMPUTE, *(f"{kind}.{name}" for kind in ("limits", "requests") for name in _COMPUTE))
)
_SERVICE_NAMES = frozenset({"services", "services.nodeports", "services.loadbalancers"})
_CLAIM_NAMES = ("persistentvolumeclaims", "requests.storage")
_BY_CLASS = ".storageclass.storage.k8s.io/"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
# Upstream's code calls this list a mistake that is kept for compatibility.
_MUST_BE_REQUESTED = frozenset(
    {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
)


def matching_names(resource: str, names: Iterable[str]) -> list[str]:
    """Return the quota names that objects of a resource count towards, sorted."""
    return sorted(name for name in names if resource_of(name) == resource)


def resource_of(name: str) -> str:
    """Return the resource that a quota name counts; empty if unknown."""
    if name.startswith("count/"):
        counted = name.removeprefix("count/")
        return "" if counted in _UNCOUNTED else counted
    if name in _POD_NAMES or name.startswith(("hugepages-", "requests.hugepages-")):
        return PODS
    if name in _SERVICE_NAMES:
        return SERVICES
    if name in _CLAIM_NAMES or name.endswith(tuple(_BY_CLASS + each for each in _CLAIM_NAMES)):
        return CLAIMS
    if name in _ALIASED:
        return name
    return PODS if name.startswith("requests.") and _is_extended(name) else ""


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def counted_resources(names: Iterable[str]) -> list[str]:
    """Return the resources that a quota with these names counts, sorted."""
    return sorted({resource for name in names if (resource := resource_of(name))})


def charges(resource: str, new: Document, old: Document | None) -> bool:
    """Return whether a write may change the usage.

    Args:
        resource: of the object.
        new: its state after the write.
        old: the state before; None when it is created.
    """
    if old is None:
        return True
    if resource == PODS:
        return _is_terminating(new) != _is_terminating(old) or resized(new, old)
    return resource in {SERVICES, CLAIMS}


# --- scopes ---------------------------------------------------------------------------------------


def quota_matches(spec: Document, hard: Iterable[str], resource: str, obj: Document) -> bool:
    """Return whether a quota applies to an object.

    Args:
        spec: of the quota.
        hard: the names it limits.
        resource: of the object.
        obj: the object.
    """
    if not matching_names(resource, hard):
        return False
    scopes = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return all(_in_scope(scope, resource, obj) for scope in scopes)


def _in_scope(scope: Document, resource: str, obj: Document) -> bool:
    name = scope.get("scopeName")
    if resource == CLAIMS and name == "VolumeAttributesClass":
        return _selects(scope, _attribute_classes(obj))
    if resource != PODS:
        return False
    if name == "PriorityClass":
        chosen = (obj.get("spec") or {}).get("priorityClassName")
        return _selects(scope, [chosen] if chosen else [])
    rule = _POD_SCOPES.get(str(name))
    return rule is not None and rule(obj)


def _selects(scope: Document, names: list[str]) -> bool:
    operator, values = scope.get("operator"), scope.get("values") or ()
    if operator == "Exists":
        return bool(names)
    if operator == "DoesNotExist":
        return not names
    if operator == "In":
        return any(name in values for name in names)
    return not names or any(name not in values for name in names)


def _attribute_classes(claim: Document) -> list[str]:
    status = claim.get("status") or {}
    named = (
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return [name for name in named if name]


def _is_terminating(pod: Document) -> bool:
    return (pod.get("spec") or {}).get("activeDeadlineSeconds") is not None


def _is_best_effort(pod: Document) -> bool:
    known = (pod.get("status") or {}).get("qosClass")
    return known == "BestEffort"


def _reaches_other_namespaces(pod: Document) -> bool:
    affinity = (pod.get("spec") or {}).get("affinity") or {}
    return any(
        term.get("namespaces") or term.get("namespaceSelector") is not None
        for kind in ("podAffinity", "podAntiAffinity")
        for term in _terms(affinity.get(kind) or {})
    )


def _terms(affinity: Document) -> Iterator[Document]:
    yield from affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    for weighted in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        yield weighted.get("podAffinityTerm") or {}


_POD_SCOPES: dict[str, Callable[[Document], bool]] = {
    "Terminating": _is_terminating,
    "NotTerminating": lambda pod: not _is_terminating(pod),
    "BestEffort": _is_best_effort,
    "NotBestEffort": lambda pod: not _is_best_effort(pod),
    "CrossNamespacePodAffinity": _reaches_other_namespaces,
}


# --- usage ----------------------------------------------------------------------------------------


def usage(resource: str, obj: Document, now: float) -> dict[str, str]:
    """Return the usage of one object.

    Args:
        resource: of the object.
        obj: defaulted.
        now: seconds since the epoch.

    Raises:
        ValueError: a value is no quantity.
    """
    used = {f"count/{resource}": "1"}
    if resource == PODS:
        used |= _pod_usage(obj, now)
    elif resource == SERVICES:
        used |= _service_usage(obj.get("spec") or {})
    elif resource == CLAIMS:
        used |= _claim_usage(obj)
    elif resource in _ALIASED:
        used[resource] = "1"
    return used


def _pod_usage(pod: Document, now: float) -> dict[str, str]:
    if (pod.get("status") or {}).get("phase") in {"Failed", "Succeeded"}:
        return {}
    metadata = pod.get("metadata") or {}
    deleted, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if deleted is not None and grace is not None and now > _seconds(deleted) + grace:
        return {}
    spec = pod.get("spec") or {}
    requests = pod_total(spec, "requests", overhead=True)
    limits = pod_total(spec, "limits", overhead=True)
    return _compute_names(requests, limits)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _compute_names(requests: Amounts, limits: Amounts) -> dict[str, str]:
    """Return requests and limits under their quota names."""
    used = {"pods": "1"}
    for name, value in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            used[name] = used[f"requests.{name}"] = value
        elif _is_extended(name):
            used[f"requests.{name}"] = value
    used |= {f"limits.{name}": limits[name] for name in _COMPUTE if name in limits}
    return used


def _service_usage(spec: Document) -> dict[str, str]:
    ports, kind = spec.get("ports") or (), spec.get("type")
    nodes = 0
    if kind == "NodePort":
        nodes = len(ports)
    elif kind == "LoadBalancer":
        allocated = spec.get("allocateLoadBalancerNodePorts") is not False
        nodes = len(ports) if allocated else sum(bool(port.get("nodePort")) for port in ports)
    return {
        "services": "1",
        "services.nodeports": str(nodes),
        "services.loadbalancers": "1" if kind == "LoadBalancer" else "0",
    }


def _claim_usage(claim: Document) -> dict[str, str]:
    spec = claim.get("spec") or {}
    used = {"persistentvolumeclaims": "1"}
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is not None:
        used["requests.storage"] = _whole_bytes(size)
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    name = annotations.get(_CLASS_ANNOTATION) or spec.get("storageClassName")
    if name:
        used |= {f"{name}{_BY_CLASS}{each}": value for each, value in used.items()}
    return used


def _whole_bytes(size: str) -> str:
    """Return a size in whole bytes, rounded up."""
    number = parse(size)
    return canonical(size) if number.denominator == 1 else str(-(-number // 1))


def missing_requests(pod: Document, names: Iterable[str]) -> str:
    """Return the error for requests and limits that a quota requires and a pod lacks, or "".

    Args:
        pod: the pod.
        names: of the quota.
    """
    spec = pod.get("spec") or {}
    whole = spec.get("resources") or {}
    if any(is_pod_level(name) for kind in whole.values() if type(kind) is dict for name in kind):
        return ""
    missing: dict[str, set[str]] = {}
    for key in ("containers", "initContainers"):
        for container in spec.get(key) or ():
            resources = container.get("resources") or {}
            given = _compute_names(resources.get("requests") or {}, resources.get("limits") or {})
            for name in _MUST_BE_REQUESTED.intersection(names) - given.keys():
                missing.setdefault(name, set()).add(container.get("name", ""))
    if not missing:
        return ""
    parts = (f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
    return f"must specify {'; '.join(parts)}"


def total(
    spec: Document, hard: Iterable[str], objects: Mapping[str, Iterable[Document]], now: float
) -> dict[str, str]:
    """Return the usage of a quota by all objects of a namespace.

    Args:
        spec: of the quota.
        hard: the names it limits.
        objects: of every resource in `counted_resources`.
        now: seconds since the epoch.

    Raises:
        ValueError: a value is no quantity.
    """
    names = list(hard)
    used: dict[str, str] = {}
    for resource, members in objects.items():
        wanted = matching_names(resource, names)
        used |= dict.fromkeys(wanted, "0")
        for obj in members:
            if quota_matches(spec, names, resource, obj):
                own = usage(resource, obj, now)
                used = add(used, {name: own[name] for name in wanted if name in own})
    return used
