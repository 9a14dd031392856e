"""NodeMetrics: what the pods of a virtual node use together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import name_of
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.usage import NodeUsage

from .documents import COLUMNS, USAGE, amounts, head, measured_schema

if TYPE_CHECKING:
    from traincrew.local.apiserver.schema import ObjectSchema
    from traincrew.local.apiserver.values.documents import Document
    from traincrew.local.apiserver.values.usage import Usage

__all__ = ["STRATEGY", "load_schema"]


def load_schema() -> ObjectSchema:
    """Load the schema of NodeMetrics."""
    return measured_schema("NodeMetrics", usage=dict(USAGE))


def _measure(node: Document, usage: Usage) -> Document | None:
    """Return the metrics of a node; one without containers uses nothing."""
    found = usage.nodes.get(node["metadata"]["name"], NodeUsage(usage.window, 0, 0))
    return {
        **head("NodeMetrics", node, usage.at, found.window),
        "usage": amounts(found.cpu, found.memory),
    }


def _row(obj: Document, _now: float) -> list[Any]:
    """Return the cells of NodeMetrics."""
    used = field(obj, "usage")
    return [name_of(obj), used.get("cpu", "0"), used.get("memory", "0"), obj.get("window", "0s")]


STRATEGY = Strategy(columns=COLUMNS, row=_row, measure=_measure)
