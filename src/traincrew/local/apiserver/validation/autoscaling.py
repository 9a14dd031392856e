"""Rules for HorizontalPodAutoscalers (``pkg/apis/autoscaling/validation``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.autoscaling.versions import to_v2
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items

from .meta import path_segment_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["autoscaler"]

_METRICS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_TARGETS = ("AverageValue", "Utilization", "Value")
_SELECTIONS = ("Disabled", "Max", "Min")
_MAX_WINDOW_SECONDS = 3600
_MAX_PERIOD_SECONDS = 1800


def autoscaler(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a HorizontalPodAutoscaler; causes have paths of version 2, as upstream's."""
    if obj.get("apiVersion") == "autoscaling/v1":
        obj = to_v2(obj)
    spec = field(obj, "spec")
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        detail = "must be greater than or equal to 1"
        found.append(why.invalid("spec.minReplicas", least, detail))
    if not most:
        found.append(why.required("spec.maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        found.append(why.invalid("spec.maxReplicas", most, "must be greater than or equal to 1"))
    if least is not None and most < least:
        detail = "must be greater than or equal to `minReplicas`"
        found.append(why.invalid("spec.maxReplicas", most, detail))
    _target(found, field(spec, "scaleTargetRef"), "spec.scaleTargetRef")
    for index, metric in enumerate(items(spec, "metrics")):
        _metric(found, metric, f"spec.metrics[{index}]")
    for direction in ("scaleUp", "scaleDown"):
        if direction in field(spec, "behavior"):
            _scaling(found, spec["behavior"][direction], f"spec.behavior.{direction}")


def _target(found: list[Cause], reference: Document, path: str) -> None:
    for key in ("kind", "name"):
        value = reference.get(key, "")
        if not value:
            found.append(why.required(f"{path}.{key}"))
        elif fault := path_segment_fault(value):
            found.append(why.invalid(f"{path}.{key}", value, fault))
    version = reference.get("apiVersion", "")
    if "/" not in version and version != "v1":
        detail = "apiVersion must specify API group"
        found.append(why.invalid(f"{path}.apiVersion", version, detail))


def _metric(found: list[Cause], metric: Document, path: str) -> None:
    kind = metric.get("type", "")
    if not kind:
        found.append(why.required(f"{path}.type", "must specify a metric source type"))
    if kind not in _METRICS:
        found.append(why.not_supported(f"{path}.type", kind, sorted(_METRICS)))
        return
    name = _METRICS[kind]
    if name not in metric:
        detail = "must populate information for the given metric source"
        found.append(why.required(f"{path}.{name}", detail))
    elif name in {"resource", "containerResource"}:
        _resource(found, metric[name], f"{path}.{name}")
    found.extend(
        why.forbidden(f"{path}.{other}", "must populate the given metric source only")
        for other in _METRICS.values()
        if other in metric and other != name
    )


def _resource(found: list[Cause], source: Document, path: str) -> None:
    if not source.get("name"):
        found.append(why.required(f"{path}.name", "must specify a resource name"))
    target, here = field(source, "target"), f"{path}.target"
    kind, share = target.get("type", ""), target.get("averageUtilization")
    if not kind:
        found.append(why.required(f"{here}.type", "must specify a metric target type"))
    if kind not in _TARGETS:
        detail = "must be either Utilization, Value, or AverageValue"
        found.append(why.invalid(f"{here}.type", kind, detail))
    if share is not None and share < 1:
        found.append(why.invalid(f"{here}.averageUtilization", share, "must be greater than 0"))
    raw = target.get("averageValue")
    if share is None and raw is None:
        detail = "must set either a target raw value or a target utilization"
        found.append(why.required(f"{here}.averageUtilization", detail))
    elif share is not None and raw is not None:
        detail = "may not set both a target raw value and a target utilization"
        found.append(why.forbidden(f"{here}.averageValue", detail))


def _scaling(found: list[Cause], rules: Document, path: str) -> None:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and not 0 <= window <= _MAX_WINDOW_SECONDS:
        limit = f"less than or equal to {_MAX_WINDOW_SECONDS}"
        detail = f"must be {'greater than or equal to zero' if window < 0 else limit}"
        found.append(why.invalid(f"{path}.stabilizationWindowSeconds", window, detail))
    chosen = rules.get("selectPolicy")
    if chosen is not None and chosen not in _SELECTIONS:
        found.append(why.not_supported(f"{path}.selectPolicy", chosen, _SELECTIONS))
    if not rules.get("policies"):
        found.append(why.required(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(items(rules, "policies")):
        here = f"{path}.policies[{index}]"
        if policy.get("type") not in {"Percent", "Pods"}:
            supported = ("Percent", "Pods")
            found.append(why.not_supported(f"{here}.type", policy.get("type", ""), supported))
        for key in ("value", "periodSeconds"):
            if policy.get(key, 0) <= 0:
                detail = "must be greater than zero"
                found.append(why.invalid(f"{here}.{key}", policy.get(key, 0), detail))
        if policy.get("periodSeconds", 0) > _MAX_PERIOD_SECONDS:
            detail = f"must be less than or equal to {_MAX_PERIOD_SECONDS}"
            found.append(why.invalid(f"{here}.periodSeconds", policy["periodSeconds"], detail))
