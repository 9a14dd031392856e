"""LimitRanges: default requests and limits of containers, and constraints.

The rules and messages are those of upstream's plugin LimitRanger
(``k8s.io/kubernetes/plugin/pkg/admission/limitranger``).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from traincrew.local.quantity import parse
from traincrew.local.quotas.podresources import pod_total, resized

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["claim_faults", "complete", "limits_of", "pod_faults"]

_LIMIT_RANGES = "limitranges"
_ANNOTATION = "kubernetes.io/limit-ranger"
_CONTAINERS = (("containers", "container"), ("initContainers", "init container"))
_CLAIM = "PersistentVolumeClaim"


def limits_of(storage: Storage, namespace: str) -> Iterator[list[Document]]:
    """Yield the limits of every LimitRange in a namespace."""
    for entry in storage.scan(_LIMIT_RANGES, namespace):
        yield (entry.obj.get("spec") or {}).get("limits") or []


def complete(storage: Storage, pod: Document) -> None:
    """Set the default requests and limits of the namespace's LimitRanges in a new pod, in place."""
    for limits in limits_of(storage, pod["metadata"]["namespace"]):
        requests: dict[str, str] = {}
        maxima: dict[str, str] = {}
        for limit in limits:
            if limit.get("type") == "Container":
                requests |= limit.get("defaultRequest") or {}
                maxima |= limit.get("default") or {}
        applied = [
            text
            for key, word in _CONTAINERS
            for container in pod["spec"].get(key) or ()
            for text in _default(container, requests, maxima, word)
        ]
        if applied:
            annotations = pod["metadata"].setdefault("annotations", {})
            annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(applied)}"


def _default(
    container: Document, requests: Mapping[str, str], limits: Mapping[str, str], word: str
) -> Iterator[str]:
    """Set missing requests and limits of a container; yield a description of each."""
    resources = container.setdefault("resources", {})
    for kind, given, values in (("request", "requests", requests), ("limit", "limits", limits)):
        own = resources.get(given) or {}
        missing = sorted(values.keys() - own.keys())
        if missing:
            resources[given] = own | {name: values[name] for name in missing}
            yield f"{', '.join(missing)} {kind} for {word} {container.get('name', '')}"


def claim_faults(limit: Document, claim: Document, old: Document | None) -> Iterator[str]:
    """Yield how a claim violates one item of a LimitRange."""
    if old is not None and old["metadata"].get("deletionTimestamp") is not None:
        return
    if limit.get("type") != _CLAIM:
        return
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    for name, value in sorted((limit.get("min") or {}).items()):
        yield from _below(_CLAIM, name, value, requests, {})
    for name, value in sorted((limit.get("max") or {}).items()):
        start = f"maximum {name} usage per {_CLAIM} is {value}"
        if name not in requests:
            yield f"{start}.  No request is specified"
        elif parse(requests[name]) > parse(value):
            yield f"{start}, but request is {requests[name]}"


def pod_faults(limit: Document, pod: Document, old: Document | None) -> Iterator[str]:
    """Yield how a new pod, or a resized one, violates one item of a LimitRange."""
    if old is not None and not resized(pod, old):
        return
    spec, kind = pod["spec"], limit.get("type", "")
    if kind == "Container":
        for key, _ in _CONTAINERS:
            for container in spec.get(key) or ():
                resources = container.get("resources") or {}
                yield from _faults(
                    limit, resources.get("requests") or {}, resources.get("limits") or {}
                )
    elif kind == "Pod":
        requests = pod_total(spec, "requests", overhead=False)
        yield from _faults(limit, requests, pod_total(spec, "limits", overhead=False))


def _faults(
    limit: Document, requests: Mapping[str, str], limits: Mapping[str, str]
) -> Iterator[str]:
    kind = limit["type"]
    for name, value in sorted((limit.get("min") or {}).items()):
        yield from _below(kind, name, value, requests, limits)
    for name, value in sorted((limit.get("max") or {}).items()):
        yield from _above(kind, name, value, requests, limits)
    for name, value in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        yield from _above_ratio(kind, name, value, requests, limits)


def _below(
    kind: str, name: str, least: str, requests: Mapping[str, str], limits: Mapping[str, str]
) -> Iterator[str]:
    start = f"minimum {name} usage per {kind} is {least}"
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif parse(requests[name]) < parse(least):
        yield f"{start}, but request is {requests[name]}"
    elif name in limits and parse(limits[name]) < parse(least):
        yield f"{start}, but limit is {limits[name]}"


def _above(
    kind: str, name: str, most: str, requests: Mapping[str, str], limits: Mapping[str, str]
) -> Iterator[str]:
    start = f"maximum {name} usage per {kind} is {most}"
    if name not in limits:
        yield f"{start}.  No limit is specified"
    elif parse(limits[name]) > parse(most):
        yield f"{start}, but limit is {limits[name]}"
    elif name in requests and parse(requests[name]) > parse(most):
        yield f"{start}, but request is {requests[name]}"


def _above_ratio(
    kind: str, name: str, most: str, requests: Mapping[str, str], limits: Mapping[str, str]
) -> Iterator[str]:
    start = f"{name} max limit to request ratio per {kind} is {most}, but"
    request, limit = parse(requests.get(name, "0")), parse(limits.get(name, "0"))
    if not request:
        yield f"{start} no request is specified or request is 0"
    elif not limit:
        yield f"{start} no limit is specified or limit is 0"
    elif Fraction(limit, request) > parse(most):
        yield f"{start} provided ratio is {float(limit / request):f}"
