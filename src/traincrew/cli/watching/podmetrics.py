"""What the pods of a job use of processors and memory, as `metrics.k8s.io` says, and their limits.

Fields: ``k8s.io/metrics/pkg/apis/metrics/v1beta1/types.go``. On most clusters metrics-server serves
it, on the embedded cluster the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import field

from traincrew.cli.watching.jobwatch import listed
from traincrew.engine.objects import ObjectMeta, View
from traincrew.engine.resources import PODS, Resource
from traincrew.local.quantity import parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.cli.watching.jobwatch import Scope
    from traincrew.engine.client import Client

__all__ = ["POD_METRICS", "Amounts", "limits_of", "used_by"]

POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
_ALWAYS = "Always"
_MOST = 2**50
"""More is no amount that a machine has."""


class Amounts(NamedTuple):
    """Amounts of processors and memory.

    Attributes:
        cpu: Thousandths of a processor; None if it is not limited.
        memory: KiB; None if it is not limited.
    """

    cpu: int | None
    memory: int | None


class _Measured(View, frozen=True, gc=False, kw_only=True):
    usage: dict[str, Any] = field(default_factory=dict)


class _PodMetrics(View, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    timestamp: str = ""
    containers: list[_Measured] = field(default_factory=list)


class _Resources(View, frozen=True, gc=False, kw_only=True):
    limits: dict[str, Any] = field(default_factory=dict)


class _Container(View, frozen=True, gc=False, kw_only=True):
    resources: _Resources = field(default_factory=_Resources)
    restart_policy: str | None = None


class _PodSpec(View, frozen=True, gc=False, kw_only=True):
    containers: list[_Container] = field(default_factory=list)
    init_containers: list[_Container] = field(default_factory=list)
    resources: _Resources | None = None


class _LimitedPod(View, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: _PodSpec = field(default_factory=_PodSpec)


async def used_by(client: Client, scope: Scope) -> dict[str, tuple[str, Amounts]]:
    """Return what pods use, by name, each with the time of its measurement (RFC 3339).

    Pods that were not measured, such as those that have just started, are not in it.

    Raises:
        ApiError: The request was refused, or nothing serves it (`NotFoundError`).
        DecodeError: The answer is not what was asked for.
    """
    found = {}
    async for pod in listed(client, POD_METRICS, _PodMetrics, scope.namespace, scope.labels):
        if pod.containers:
            cpu = sum(_amount(one.usage, "cpu", 1000) or 0 for one in pod.containers)
            memory = sum(_amount(one.usage, "memory", 1 / 1024) or 0 for one in pod.containers)
            found[pod.metadata.name] = pod.timestamp, Amounts(cpu, memory)
    return found


async def limits_of(client: Client, scope: Scope) -> dict[str, Amounts]:
    """Return the limits of pods, by UID.

    Raises:
        ApiError: The request was refused.
        DecodeError: The answer is not what was asked for.
    """
    return {
        pod.metadata.uid: Amounts(
            _limit(pod.spec, "cpu", 1000), _limit(pod.spec, "memory", 1 / 1024)
        )
        async for pod in listed(client, PODS, _LimitedPod, scope.namespace, scope.labels)
    }


def _limit(spec: _PodSpec, name: str, factor: float) -> int | None:
    """Return the limit of a pod: its own, or the sum of its containers if each has one."""
    own = _amount(spec.resources.limits, name, factor) if spec.resources is not None else None
    if own is not None:
        return own
    sidecars = [one for one in spec.init_containers if one.restart_policy == _ALWAYS]
    return _sum(
        _amount(one.resources.limits, name, factor) for one in [*spec.containers, *sidecars]
    )


def _sum(parts: Iterable[int | None]) -> int | None:
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def _amount(amounts: dict[str, Any], name: str, factor: float) -> int | None:
    """Return an amount in units of which a whole one has `factor`; None if it is none."""
    try:
        amount = float(parse(amounts[name])) * factor
    except (KeyError, OverflowError, TypeError, ValueError):
        return None
    return round(amount) if 0 <= amount < _MOST else None
