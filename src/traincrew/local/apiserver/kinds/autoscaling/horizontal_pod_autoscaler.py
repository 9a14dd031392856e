"""HorizontalPodAutoscalers; no controller runs them here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.autoscaling import versions
from traincrew.local.apiserver.kinds.shared.cells import NONE, age_of, name_of
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.documents import field, items

from .versions import to_v2

if TYPE_CHECKING:
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


STRATEGY = Strategy(
    resources=(
        ResourceType(
            "autoscaling",
            "v2",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            short_names=("hpa",),
            categories=("all",),
            status=True,
        ),
        ResourceType(
            "autoscaling",
            "v1",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            short_names=("hpa",),
            categories=("all",),
            status=True,
            storage_version="v2",
            from_storage=versions.from_v2,
            to_storage=versions.to_v2,
        ),
    ),
    columns="Name Reference Targets MinPods MaxPods Replicas Age",
    row=_row,
    default=_default,
)
