"""Effective requests and limits of a pod. Pure.

Rules: ``k8s.io/component-helpers/resource/helpers.go`` (``PodRequests``, ``PodLimits``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from traincrew.local.quantity import parse
from traincrew.local.quotas.amounts import Amounts, add

__all__ = ["is_pod_level", "pod_total", "resized"]

Document = Mapping[str, Any]


def is_pod_level(name: str) -> bool:
    """Return whether a resource can be set for the whole pod, in `spec.resources`."""
    return name in {"cpu", "memory"} or name.startswith("hugepages-")


def pod_total(
    spec: Document, kind: Literal["limits", "requests"], *, overhead: bool
) -> dict[str, str]:
    """Return the sum of containers and sidecars, or the maximum of the init phase if larger.

    Args:
        spec: of the pod, defaulted.
        kind: requests or limits.
        overhead: whether to add the overhead of the RuntimeClass.

    Raises:
        ValueError: a value is no quantity.
    """
    total: dict[str, str] = {}
    for container in spec.get("containers") or ():
        total = add(total, _declared(container, kind))
    sidecars: dict[str, str] = {}
    steps: list[dict[str, str]] = []
    for container in spec.get("initContainers") or ():
        own = _declared(container, kind)
        if container.get("restartPolicy") == "Always":
            total = add(total, own)
            sidecars = add(sidecars, own)
            steps.append(sidecars)
        else:
            steps.append(add(own, sidecars))
    total = _maximum([total, *steps])
    total |= {name: value for name, value in _declared(spec, kind).items() if is_pod_level(name)}
    if overhead:
        extra: Amounts = spec.get("overhead") or {}
        if kind == "limits":
            extra = {name: value for name, value in extra.items() if parse(total.get(name, "0"))}
        total = add(total, extra)
    return total


def _declared(holder: Document, kind: str) -> Amounts:
    amounts: Amounts = (holder.get("resources") or {}).get(kind) or {}
    return amounts


def _maximum(lists: Iterable[Amounts]) -> dict[str, str]:
    most: dict[str, str] = {}
    for amounts in lists:
        for name, value in amounts.items():
            if name not in most or parse(value) > parse(most[name]):
                most[name] = value
    return most


def resized(new: Document, old: Document) -> bool:
    """Return whether the resources of a pod's containers differ."""
    return _resources_of(new) != _resources_of(old)


def _resources_of(pod: Document) -> list[Any]:
    spec = pod.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return [spec.get("resources"), *(each.get("resources") for each in containers)]
