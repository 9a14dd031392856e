"""Plan of a HorizontalPodAutoscaler: what it should do now, and what it says. Pure.

Rules and messages: ``pkg/controller/podautoscaler/horizontal.go`` of Kubernetes. Metrics of types
Pods, Object and External need APIs that nothing serves here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.engine.resources import Resource
from traincrew.local.controllers.autoscaling.limits import History, Note, limit
from traincrew.local.controllers.autoscaling.metrics import (
    MetricError,
    Proposal,
    Sample,
    Seen,
    Tolerances,
    propose,
)
from traincrew.local.controllers.common import format_time, set_condition
from traincrew.local.controllers.writes import Event
from traincrew.local.quantity import parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.engine.objects import AnyObject

__all__ = ["AUTOSCALERS", "Observed", "Plan", "plan_autoscaler", "rescaled", "scale_failed"]

AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
_DEFAULT_METRIC = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_SUPPORTED = frozenset({"Resource", "ContainerResource"})


class Observed(Struct, frozen=True):
    """The state of an autoscaler's target.

    Attributes:
        replicas: that it should have now.
        selector: of its pods, as text; empty if it has none.
        pods: that the selector matches.
        samples: what they use, by name.
        failure: why the metrics could not be read; empty if they could.
    """

    replicas: int
    selector: str
    pods: Sequence[AnyObject] = ()
    samples: Mapping[str, Sample] = field(default_factory=dict)
    failure: str = ""


class Plan(Struct):
    """What to do: a number of replicas to set (None for no change), the status, and the events.

    Attributes:
        reason: of the change, for its event.
    """

    status: dict[str, Any]
    replicas: int | None = None
    reason: str = ""
    events: list[Event] = field(default_factory=list)


def plan_autoscaler(scaler: AnyObject, observed: Observed, history: History, now: float) -> Plan:
    """Plan the next step of an autoscaler.

    Args:
        scaler: The autoscaler.
        observed: Its target.
        history: What it has recommended and done; extended by the recommendation.
        now: Seconds since the epoch.
    """
    spec, current = scaler.spec, observed.replicas
    history.forget_before(now)
    if not history.recommended:
        history.recommended.append(Note(now, current))
    plan = Plan(dict(scaler.status))
    text = "the HPA controller was able to get the target's current scale"
    _condition(plan, "AbleToScale", ("SucceededGetScale", text), now)
    least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
    desired, metrics = current, None
    if current == 0:
        text = "scaling is disabled since the replica count of the target is zero"
        _condition(plan, "ScalingActive", ("ScalingDisabled", text), now, status=False)
        desired = 0
    elif current > most:
        desired, plan.reason = most, "Current number of replicas above Spec.MaxReplicas"
    elif current < least:
        desired, plan.reason = least, "Current number of replicas below Spec.MinReplicas"
    else:
        best, metrics = _recommendation(plan, spec, observed, now)
        if best is None:
            plan.status |= {"currentReplicas": current, "currentMetrics": metrics or None}
            return plan
        if best.replicas > current:
            plan.reason = f"{best.name} above target"
        elif best.replicas < current:
            plan.reason = "All metrics below target"
        found = limit(spec, current, best.replicas, history, now)
        _condition(plan, "AbleToScale", found.able, now)
        _condition(plan, "ScalingLimited", found.limited, now, status=found.is_limited)
        desired = found.replicas
    plan.status |= {
        "currentReplicas": current,
        "desiredReplicas": desired,
        "currentMetrics": metrics or None,
    }
    if desired != current:
        plan.replicas = desired
    return plan


def _recommendation(
    plan: Plan, spec: Mapping[str, Any], observed: Observed, now: float
) -> tuple[Proposal | None, list[dict[str, Any]]]:
    """Return the highest proposal, and the status of metrics; no proposal if one is unknown.

    As upstream (``computeReplicasForMetrics``): metrics that fail do not keep a target from
    getting more replicas, but from getting fewer.
    """
    if not observed.selector:
        text = "the HPA target's scale is missing a selector"
        _condition(plan, "ScalingActive", ("InvalidSelector", text), now, status=False)
        plan.events.append(Event("SelectorRequired", "selector is required", "Warning"))
        _failed_to_compute(plan, "selector is required")
        return None, []
    metrics = spec.get("metrics") or [_DEFAULT_METRIC]
    found: list[Proposal] = []
    failures: list[tuple[str, str, str]] = []
    for metric in metrics:
        kind = metric["type"]
        try:
            found.append(_proposal(metric, spec, observed, now))
        except MetricError as error:
            reason = f"FailedGet{kind}Metric"
            plan.events.append(Event(reason, str(error), "Warning"))
            failures.append((reason, str(error), _described(metric)))
    best = max(found, key=lambda each: each.replicas, default=None)
    if failures and (best is None or best.replicas < observed.replicas):
        reason, text, described = failures[0]
        words = f"the HPA was unable to compute the replica count: {text}"
        _condition(plan, "ScalingActive", (reason, words), now, status=False)
        count = f"invalid metrics ({len(failures)} invalid out of {len(metrics)})"
        _failed_to_compute(plan, f"{count}, first error is: failed to get {described}: {text}")
        return None, [each.status for each in found]
    assert best is not None
    words = f"the HPA was able to successfully calculate a replica count from {best.name}"
    _condition(plan, "ScalingActive", ("ValidMetricFound", words), now)
    return best, [each.status for each in found]


def _proposal(
    metric: Mapping[str, Any], spec: Mapping[str, Any], observed: Observed, now: float
) -> Proposal:
    if metric["type"] not in _SUPPORTED:
        text = "the embedded cluster serves metrics of types Resource and ContainerResource only"
        raise MetricError(text)
    if observed.failure:
        source = metric.get("resource") or metric.get("containerResource") or {}
        name = source.get("name", "")
        average = (source.get("target") or {}).get("averageValue")
        word = "utilization" if average is None else "usage"
        text = f"unable to get metrics for resource {name}: unable to fetch metrics from resource"
        raise MetricError(f"failed to get {name} {word}: {text} metrics API: {observed.failure}")
    tolerances = _tolerances(spec.get("behavior") or {})
    seen = Seen(observed.replicas, observed.pods, observed.samples, tolerances, now)
    return propose(metric, seen)


def _described(metric: Mapping[str, Any]) -> str:
    kind = metric["type"]
    if kind == "Resource":
        return f"{metric['resource']['name']} resource metric value"
    if kind == "ContainerResource":
        return f"{metric['containerResource'].get('container', '')} container metric value"
    return f"{kind.lower()} metric value"


def _tolerances(behavior: Mapping[str, Any]) -> Tolerances:
    def of(name: str) -> float:
        value = (behavior.get(name) or {}).get("tolerance")
        return 0.1 if value is None else float(parse(value))

    return Tolerances(of("scaleDown"), of("scaleUp"))


def rescaled(plan: Plan, current: int, history: History, now: float) -> None:
    """Complete the plan after the target was changed, and note the change."""
    assert plan.replicas is not None
    text = f"the HPA controller was able to update the target scale to {plan.replicas}"
    _condition(plan, "AbleToScale", ("SucceededRescale", text), now)
    plan.status["lastScaleTime"] = format_time(now)
    words = f"New size: {plan.replicas}; reason: {plan.reason}"
    plan.events.append(Event("SuccessfulRescale", words))
    history.changes.append(Note(now, plan.replicas - current))


def scale_failed(scaler: AnyObject, error: str, now: float, *, plan: Plan | None = None) -> Plan:
    """Return what to say when the scale could not be read, or with a plan, not be written."""
    if plan is None:
        plan = Plan(dict(scaler.status))
        text = f"the HPA controller was unable to get the target's current scale: {error}"
        _condition(plan, "AbleToScale", ("FailedGetScale", text), now, status=False)
        plan.events.append(Event("FailedGetScale", error, "Warning"))
        return plan
    text = f"the HPA controller was unable to update the target scale: {error}"
    _condition(plan, "AbleToScale", ("FailedUpdateScale", text), now, status=False)
    words = f"New size: {plan.replicas}; reason: {plan.reason}; error: {error}"
    plan.events.append(Event("FailedRescale", words, "Warning"))
    plan.status["desiredReplicas"] = scaler.status.get("desiredReplicas", 0)
    return plan


def _failed_to_compute(plan: Plan, text: str) -> None:
    plan.events.append(Event("FailedComputeMetricsReplicas", text, "Warning"))


def _condition(
    plan: Plan, kind: str, why: tuple[str, str], now: float, *, status: bool = True
) -> None:
    """Set a condition; `why` is its reason and message."""
    plan.status["conditions"] = set_condition(
        plan.status.get("conditions"), kind, status, *why, now=now
    )
