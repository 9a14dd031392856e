"""From what pods use to a number of replicas. Pure.

Rules and messages: ``pkg/controller/podautoscaler/replica_calculator.go`` of Kubernetes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.local.controllers import pods as podutil
from traincrew.local.controllers.common import find_condition, parse_time
from traincrew.local.quantity import parse, render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from traincrew.engine.objects import AnyObject

__all__ = ["MetricError", "Proposal", "Sample", "Seen", "Tolerances", "propose", "samples_of"]

CPU_INITIALIZATION_SECONDS = 300.0
"""For so long after its start, the CPU of a pod counts only if it has been ready for a window."""
READINESS_DELAY_SECONDS = 30.0
"""A pod that has become unready within this time after its start has never been ready."""


class MetricError(Exception):
    """A metric gives no number of replicas; the message says why, in upstream's words."""


class Sample(Struct, frozen=True):
    """What the containers of a pod use.

    Attributes:
        at: end of the measurement, in seconds since the epoch.
        window: its length in seconds.
        containers: thousandths of each resource, by container.
    """

    at: float
    window: float
    containers: dict[str, dict[str, int]]


class Tolerances(Struct, frozen=True):
    """How far use may be from the target without a change, as a share of it."""

    down: float = 0.1
    up: float = 0.1

    def contains(self, ratio: float) -> bool:
        """Return whether a ratio of use to target changes nothing."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Proposal(Struct, frozen=True):
    """What one metric proposes.

    Attributes:
        replicas: the number.
        name: of the metric, for events and conditions.
        status: its entry in ``currentMetrics``.
    """

    replicas: int
    name: str
    status: dict[str, Any]


class _Groups(Struct, frozen=True):
    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


def samples_of(items: Iterable[Mapping[str, Any]]) -> dict[str, Sample]:
    """Return the samples in PodMetrics, by pod."""
    return {
        item["metadata"]["name"]: Sample(
            parse_time(item["timestamp"]),
            _seconds(str(item.get("window", "0s"))),
            {
                each["name"]: {key: _milli(value) for key, value in each["usage"].items()}
                for each in item.get("containers") or ()
            },
        )
        for item in items
    }


def _seconds(text: str) -> float:
    """Return the seconds of a window, which are minutes and seconds at most."""
    minutes, _, rest = text.rpartition("m")
    try:
        return int(minutes or 0) * 60 + float(rest.removesuffix("s") or 0)
    except ValueError:
        return 0.0


def _milli(quantity: str) -> int:
    return math.ceil(parse(quantity) * 1000)


class Seen(Struct, frozen=True):
    """What a proposal depends on, besides the metric.

    Attributes:
        current: replicas that the target should have.
        pods: those that the target's selector matches.
        samples: of pods, by name.
        tolerances: of the autoscaler.
        now: seconds since the epoch.
    """

    current: int
    pods: Sequence[AnyObject]
    samples: Mapping[str, Sample]
    tolerances: Tolerances
    now: float


def propose(spec: Mapping[str, Any], seen: Seen) -> Proposal:
    """Return what a metric of type Resource or ContainerResource proposes.

    Args:
        spec: the entry in ``spec.metrics``.
        seen: the target.

    Raises:
        MetricError: there is none.
    """
    kind = "containerResource" if spec["type"] == "ContainerResource" else "resource"
    source = spec[kind]
    resource, container = source["name"], source.get("container", "")
    target = source.get("target") or {}
    word = "utilization" if target.get("averageValue") is None else "usage"
    try:
        values, groups = _counted(seen, resource, container)
        if word == "usage":
            wanted = max(_milli(target["averageValue"]), 1)
            name, used = f"{resource} resource", {}
            replicas = _replicas(values, groups, seen, _Use(lambda _: wanted, None, wanted))
        else:
            share = max(int(target.get("averageUtilization") or 0), 1)
            requests = {p.metadata.name: _request(p, container, resource) for p in seen.pods}
            part = " container" if container else ""
            name = f"{resource}{part} resource utilization (percentage of request)"
            used = {"averageUtilization": _utilization(values, requests)}
            busy = max(100, share)
            use = _Use(lambda pod: requests[pod] * busy // 100, requests, share)
            replicas = _replicas(values, groups, seen, use)
    except MetricError as error:
        raise MetricError(f"failed to get {resource} {word}: {error}") from None
    current = {**used, "averageValue": _quantity(resource, _mean(values))}
    named = {"name": resource} | ({"container": container} if container else {})
    status = {"type": spec["type"], kind: {**named, "current": current}}
    return Proposal(replicas, name, status)


class _Use(Struct, frozen=True):
    """How use is compared with a target.

    Attributes:
        of_missing: what a pod without metrics is assumed to use when the number would fall.
        requests: of pods, for a target in percent of them.
        target: that, or thousandths for each pod.
    """

    of_missing: Callable[[str], int]
    requests: Mapping[str, int] | None
    target: int

    def ratio(self, values: Mapping[str, int]) -> float:
        """Return the ratio of use to target."""
        if self.requests is None:
            return _mean(values) / self.target
        return _utilization(values, self.requests) / self.target


def _counted(seen: Seen, resource: str, container: str) -> tuple[dict[str, int], _Groups]:
    """Return what the pods use that count, and how all pods are divided.

    Raises:
        MetricError: there are none.
    """
    values = _values(seen.samples, resource, container)
    if not seen.pods:
        raise MetricError("no pods returned by selector while calculating replica count")
    groups = _group(seen, values, resource)
    known = {
        name: value
        for name, value in values.items()
        if name not in groups.ignored and name not in groups.unready
    }
    if not known:
        raise MetricError("did not receive metrics for targeted pods (pods might be unready)")
    return known, groups


def _values(samples: Mapping[str, Sample], resource: str, container: str) -> dict[str, int]:
    values: dict[str, int] = {}
    for name, sample in samples.items():
        chosen = [
            used for each, used in sample.containers.items() if not container or each == container
        ]
        if chosen and all(resource in used for used in chosen):
            values[name] = sum(used[resource] for used in chosen)
    if not values:
        text = f"unable to get metrics for resource {resource}: no metrics returned from resource"
        raise MetricError(f"{text} metrics API")
    return values


def _group(seen: Seen, values: Mapping[str, int], resource: str) -> _Groups:
    """Divide pods into those that count and those that do not (``groupPods``)."""
    ready = 0
    unready, missing, ignored = set(), set(), set()
    for pod in seen.pods:
        name = pod.metadata.name
        if podutil.is_terminating(pod) or podutil.phase(pod) == "Failed":
            ignored.add(name)
        elif podutil.phase(pod) == "Pending":
            unready.add(name)
        elif name not in values:
            missing.add(name)
        elif resource == "cpu" and _is_initializing(pod, seen.samples[name], seen.now):
            unready.add(name)
        else:
            ready += 1
    return _Groups(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _is_initializing(pod: AnyObject, sample: Sample, now: float) -> bool:
    condition = find_condition(pod.status.get("conditions"), "Ready")
    started = pod.status.get("startTime")
    if condition is None or not started:
        return True
    changed = parse_time(condition.get("lastTransitionTime") or started)
    is_unready = condition.get("status") == "False"
    if parse_time(started) + CPU_INITIALIZATION_SECONDS > now:
        return is_unready or sample.at < changed + sample.window
    return is_unready and parse_time(started) + READINESS_DELAY_SECONDS > changed


def _request(pod: AnyObject, container: str, resource: str) -> int:
    """Return what a pod requests, in thousandths.

    Raises:
        MetricError: a container has no request, or there is no such container.
    """
    sidecars = [
        each
        for each in pod.spec.get("initContainers") or ()
        if each.get("restartPolicy") == "Always"
    ]
    total, found = 0, False
    for each in (*pod.spec["containers"], *sidecars):
        if container and each["name"] != container:
            continue
        found = True
        requests = (each.get("resources") or {}).get("requests") or {}
        if resource not in requests:
            where = f"in container {each['name']} of Pod {pod.metadata.name}"
            raise MetricError(f"missing request for {resource} {where}")
        total += _milli(requests[resource])
    if not found:
        raise MetricError(f"container {container} not found in Pod {pod.metadata.name}")
    return total


def _utilization(values: Mapping[str, int], requests: Mapping[str, int]) -> int:
    """Return the use in percent of the requests."""
    known = [name for name in values if name in requests]
    total = sum(requests[name] for name in known)
    if not total:
        raise MetricError("no metrics returned matched known pods")
    return sum(values[name] for name in known) * 100 // total


def _mean(values: Mapping[str, int]) -> int:
    return sum(values.values()) // len(values)


def _replicas(values: dict[str, int], groups: _Groups, seen: Seen, use: _Use) -> int:
    """Return the number of replicas (``GetResourceReplicas``, ``calcPlainMetricReplicas``).

    What is unknown never makes a change larger: pods without metrics count as idle if the number
    would rise, and as busy if it would fall.
    """
    ratio, current = use.ratio(values), seen.current
    rises_with_unready = bool(groups.unready) and ratio > 1.0
    if not rises_with_unready and not groups.missing:
        if seen.tolerances.contains(ratio):
            return current
        return math.ceil(ratio * groups.ready)
    assumed = dict(values)
    if ratio != 1.0:
        assumed |= {name: use.of_missing(name) if ratio < 1.0 else 0 for name in groups.missing}
    if rises_with_unready:
        assumed |= dict.fromkeys(groups.unready, 0)
    again = use.ratio(assumed)
    if seen.tolerances.contains(again) or ratio < 1.0 < again or again < 1.0 < ratio:
        return current
    replicas = math.ceil(again * len(assumed))
    if (again < 1.0 and replicas > current) or (again > 1.0 and replicas < current):
        return current
    return replicas


def _quantity(resource: str, milli: int) -> str:
    amount = parse(f"{milli}m")
    return render(amount, "1Ki" if resource == "memory" else "1m")
