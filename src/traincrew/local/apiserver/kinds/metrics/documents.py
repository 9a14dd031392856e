"""What NodeMetrics and PodMetrics share: schema, metadata, amounts, columns.

Fields: ``k8s.io/metrics/pkg/apis/metrics/v1beta1/types.go``; values and columns: those of
metrics-server (``pkg/api``).
"""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.schema import ObjectSchema, from_crd
from traincrew.local.quantity import render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.local.apiserver.values.documents import Document

__all__ = ["COLUMNS", "USAGE", "amounts", "head", "measured_schema", "window_text"]

COLUMNS = "Name cpu memory Window"

USAGE: Mapping[str, Any] = {
    "type": "object",
    "description": "The memory usage is the memory working set.",
    "additionalProperties": {"type": "string"},
}
"""The schema of ``usage``."""


def measured_schema(kind: str, **properties: Any) -> ObjectSchema:
    """Return the schema of a kind with a window, and these fields."""
    source = {
        "type": "object",
        "properties": {
            "timestamp": {"type": "string", "format": "date-time"},
            "window": {"type": "string"},
            **properties,
        },
    }
    return from_crd(source, "metrics.k8s.io", "v1beta1", kind)


def head(kind: str, measured: Document, at: float, window: float) -> Document:
    """Return the fields that both kinds begin with.

    Args:
        kind: the kind.
        measured: the pod or node; its labels are shown, so that selectors find its metrics.
        at: end of the measurement, in seconds since the epoch.
        window: its length in seconds.
    """
    of = measured["metadata"]
    time = datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"name": of["name"]}
    if "namespace" in of:
        metadata["namespace"] = of["namespace"]
    metadata["creationTimestamp"] = time
    if of.get("labels"):
        metadata["labels"] = of["labels"]
    return {
        "kind": kind,
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": metadata,
        "timestamp": time,
        "window": window_text(window),
    }


def amounts(cpu: float, memory: int) -> Document:
    """Return processors and bytes as quantities, as metrics-server writes them."""
    nano = Fraction(round(max(cpu, 0) * 10**9), 10**9)
    return {"cpu": render(nano, "1n"), "memory": render(Fraction(memory), "1Ki")}


def window_text(seconds: float) -> str:
    """Return a duration of less than some minutes as Go writes it: ``15.03s``, ``1m2s``."""
    minutes, rest = divmod(round(seconds * 1000), 60_000)
    text = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    return f"{minutes}m{text}" if minutes else text
