"""HorizontalPodAutoscaler: stored as autoscaling/v2 and also served as autoscaling/v1.

Version 1 only has a field for the CPU target. Everything else is kept in annotations, as upstream
does (``pkg/apis/autoscaling/v1/conversion.go``), so that a client that reads and writes version 1
loses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values.codec import DecodeError, encode
from traincrew.local.apiserver.values.errors import StatusError
from traincrew.local.apiserver.values.limits import decode_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.local.apiserver.values.documents import Document

__all__ = ["from_v2", "to_v2"]

_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS = f"{_PREFIX}metrics"
_CURRENT = f"{_PREFIX}current-metrics"
_BEHAVIOR = f"{_PREFIX}behavior"
_CONDITIONS = f"{_PREFIX}conditions"
_ANNOTATIONS = (_METRICS, _CURRENT, _BEHAVIOR, _CONDITIONS)
_TARGET = "targetCPUUtilizationPercentage"
_CURRENT_TARGET = "currentCPUUtilizationPercentage"
_SOURCES = ("containerResource", "external", "object", "pods", "resource")


def from_v2(document: Document) -> Document:
    """Convert an autoscaling/v2 object to autoscaling/v1."""
    spec: Document = dict(document.get("spec") or {})
    status: Document = dict(document.get("status") or {})
    notes = _other_annotations(document)
    metrics = spec.pop("metrics", None) or []
    shares = [each for each in metrics if _is_cpu_share(each)]
    if shares:
        spec[_TARGET] = shares[0]["resource"]["target"]["averageUtilization"]
    if others := [_old(each, "target") for each in metrics if not _is_cpu_share(each)]:
        notes[_METRICS] = encode(others).decode()
    if behavior := spec.pop("behavior", None):
        notes[_BEHAVIOR] = encode(_recased(behavior, str.upper)).decode()
    current = status.pop("currentMetrics", None) or []
    for each in current:
        if each.get("resource", {}).get("name") == "cpu":
            share = each["resource"].get("current", {}).get("averageUtilization")
            status |= {} if share is None else {_CURRENT_TARGET: share}
    if current:
        notes[_CURRENT] = encode([_old(each, "current") for each in current]).decode()
    if conditions := status.pop("conditions", None):
        notes[_CONDITIONS] = encode(conditions).decode()
    return _assembled(document, "autoscaling/v1", notes, spec, status)


def to_v2(document: Document) -> Document:
    """Convert an autoscaling/v1 object to the stored version, autoscaling/v2."""
    spec: Document = dict(document.get("spec") or {})
    status: Document = dict(document.get("status") or {})
    ours = (document.get("metadata") or {}).get("annotations") or {}
    metrics = [_new(each, "target") for each in _list(ours.get(_METRICS))]
    share = spec.pop(_TARGET, None)
    if share is None and not metrics:
        share = 80  # upstream's default; version 1 cannot express "none"
    if share is not None:
        target = {"type": "Utilization", "averageUtilization": share}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    spec["metrics"] = metrics
    behavior = _decoded(ours.get(_BEHAVIOR))
    if isinstance(behavior, dict) and behavior:
        spec["behavior"] = _recased(behavior, str.lower)
    share = status.pop(_CURRENT_TARGET, None)
    current = [_new(each, "current") for each in _list(ours.get(_CURRENT))]
    if share is not None and not current:
        value = {"averageUtilization": share}
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": value}}]
    if current:
        status["currentMetrics"] = current
    if conditions := _list(ours.get(_CONDITIONS)):
        status["conditions"] = conditions
    return _assembled(document, "autoscaling/v2", _other_annotations(document), spec, status)


def _assembled(
    document: Document, version: str, annotations: Document, spec: Document, status: Document
) -> Document:
    result = document | {"apiVersion": version}
    if "spec" in document:
        result["spec"] = spec
    if "status" in document or status:
        result["status"] = status
    if isinstance(document.get("metadata"), dict):
        metadata = dict(document["metadata"])
        metadata.pop("annotations", None)
        result["metadata"] = metadata | ({"annotations": annotations} if annotations else {})
    return result


def _other_annotations(document: Document) -> Document:
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    return {key: value for key, value in annotations.items() if key not in _ANNOTATIONS}


def _is_cpu_share(metric: Document) -> bool:
    source = metric.get("resource") or {}
    share = (source.get("target") or {}).get("averageUtilization")
    return metric.get("type") == "Resource" and source.get("name") == "cpu" and share is not None


def _decoded(text: Any) -> Any:
    if not isinstance(text, str):
        return None
    try:
        return decode_request(text.encode())
    except (DecodeError, StatusError):
        return None  # as upstream: malformed values are dropped


def _list(text: Any) -> list[Document]:
    found = _decoded(text)
    if not isinstance(found, list) or not all(_is_metric(each) for each in found):
        return []
    return found


def _is_metric(found: Any) -> bool:
    return isinstance(found, dict) and all(
        isinstance(found.get(source, {}), dict) for source in _SOURCES
    )


def _old(metric: Document, key: str) -> Document:
    """Convert a metric (`key` is ``target`` or ``current``) to version 1."""
    result: Document = {"type": metric.get("type", "")}
    for source in _SOURCES:
        if source in metric:
            result[source] = _old_source(source, metric[source], key)
    return result


def _old_source(kind: str, source: Document, key: str) -> Document:
    value = source.get(key) or {}
    result: Document = {name: source[name] for name in ("name", "container") if name in source}
    if "metric" in source:
        result["metricName"] = source["metric"].get("name", "")
        if selector := source["metric"].get("selector"):
            result["metricSelector" if kind == "external" else "selector"] = selector
    if "describedObject" in source:
        result["target"] = source["describedObject"]
    for old, new in _names(kind, key).items():
        if new in value:
            result[old] = value[new]
    return result


def _new(metric: Document, key: str) -> Document:
    """Convert a metric to version 2; the reverse of `_old`."""
    result: Document = {"type": metric.get("type", "")}
    for source in _SOURCES:
        if source in metric:
            result[source] = _new_source(source, metric[source], key)
    return result


def _new_source(kind: str, source: Document, key: str) -> Document:
    result: Document = {name: source[name] for name in ("name", "container") if name in source}
    if "metricName" in source:
        result["metric"] = {"name": source["metricName"]}
        if selector := source.get("metricSelector" if kind == "external" else "selector"):
            result["metric"]["selector"] = selector
    if kind == "object" and "target" in source:
        result["describedObject"] = source["target"]
    value = {new: source[old] for old, new in _names(kind, key).items() if old in source}
    if key == "target":
        value = {"type": _target_type(value)} | value
    result[key] = value
    return result


def _names(kind: str, key: str) -> dict[str, str]:
    """Map the field names of values in version 1 to those in version 2."""
    average = "averageValue" if kind == "object" else f"{key}AverageValue"
    names = {average: "averageValue"}
    if kind in {"resource", "containerResource"}:
        names[f"{key}AverageUtilization"] = "averageUtilization"
    if kind in {"object", "external"}:
        names[f"{key}Value"] = "value"
    return names


def _target_type(value: Document) -> str:
    if "averageUtilization" in value:
        return "Utilization"
    return "Value" if "value" in value else "AverageValue"


def _recased(value: Any, change: Callable[[str], str]) -> Any:
    """Change the first letter of every key: the annotation has Go's field names (capitalized)."""
    if isinstance(value, list):
        return [_recased(each, change) for each in value]
    if isinstance(value, dict):
        return {change(key[:1]) + key[1:]: _recased(each, change) for key, each in value.items()}
    return value
