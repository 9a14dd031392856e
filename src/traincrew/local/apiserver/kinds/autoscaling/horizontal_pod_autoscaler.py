"""HorizontalPodAutoscalers; no controller runs them here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import NONE, age_of, name_of
from traincrew.local.apiserver.kinds.shared.meta import path_segment_fault
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.documents import field, items

from .versions import to_v2

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]

_UNSET = "<unset>"

_UNKNOWN = "<unknown>"


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a HorizontalPodAutoscaler of either version."""
    if obj.get("apiVersion") == "autoscaling/v1":
        obj = to_v2(obj)
    spec = field(obj, "spec")
    target = field(spec, "scaleTargetRef")
    return [
        name_of(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _measured(
            list(items(spec, "metrics")), list(items(field(obj, "status"), "currentMetrics"))
        ),
        str(spec.get("minReplicas", _UNSET)),
        spec.get("maxReplicas", 0),
        field(obj, "status").get("currentReplicas", 0),
        age_of(obj, now),
    ]


def _measured(metrics: list[Document], measured: list[Document]) -> str:
    """Return the first two metrics as ``current/target``."""
    texts = []
    for index, metric in enumerate(metrics):
        kind = metric.get("type", "")
        key = kind[:1].lower() + kind[1:]
        found = field(measured[index], key) if index < len(measured) else {}
        texts.append(_metric_cell(key, field(metric, key), field(found, "current")))
    shown = ", ".join(texts[:2])
    if len(texts) > 2:
        shown += f" + {len(texts) - 2} more..."
    return shown or NONE


def _metric_cell(kind: str, source: Document, current: Document) -> str:
    target = field(source, "target")
    average = target.get("averageValue")
    if kind in {"resource", "containerResource"}:
        name = source.get("name", "")
        if average is not None:
            return f"{name}: {current.get('averageValue', _UNKNOWN)}/{average}"
        share, wanted = current.get("averageUtilization"), target.get("averageUtilization")
        left = _UNKNOWN if share is None else f"{share}%"
        return f"{name}: {left}/{'<auto>' if wanted is None else f'{wanted}%'}"
    if kind not in {"external", "object", "pods"}:
        return "<unknown type>"
    if average is not None:
        note = "" if kind == "pods" else " (avg)"
        return f"{current.get('averageValue', _UNKNOWN)}/{average}{note}"
    return f"{current.get('value', _UNKNOWN)}/{target.get('value', '')}"


def _default(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is dict:
        spec.setdefault("minReplicas", 1)
        if obj.get("apiVersion") == "autoscaling/v1":
            return  # version 1 has no fields for the rest
        if not spec.get("metrics"):
            spec["metrics"] = [
                {
                    "type": "Resource",
                    "resource": {
                        "name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 80},
                    },
                }
            ]

    behavior = field(obj, "spec").get("behavior")
    if type(behavior) is dict:
        for direction, rules in _SCALING.items():
            behavior[direction] = clone(rules) | (behavior.get(direction) or {})


_SCALING: Document = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ],
    },
    "scaleDown": {
        "selectPolicy": "Max",
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
    },
}


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


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
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


STRATEGY = Strategy(
    columns="Name Reference Targets MinPods MaxPods Replicas Age",
    row=_row,
    default=_default,
    validate=_validate,
    # An empty list here prevents the default; validation rejects it.
    kept_empty="policies",
)
