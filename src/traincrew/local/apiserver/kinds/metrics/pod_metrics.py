"""PodMetrics: what the running containers of a pod use."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import name_of
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.quantity import parse, render

from .documents import COLUMNS, USAGE, amounts, head, measured_schema

if TYPE_CHECKING:
    from traincrew.local.apiserver.schema import ObjectSchema
    from traincrew.local.apiserver.values.documents import Document
    from traincrew.local.apiserver.values.usage import Usage

__all__ = ["STRATEGY", "load_schema"]


def load_schema() -> ObjectSchema:
    """Load the schema of PodMetrics."""
    item = {"type": "object", "properties": {"name": {"type": "string"}, "usage": dict(USAGE)}}
    containers = {"type": "array", "x-kubernetes-list-type": "atomic", "items": item}
    return measured_schema("PodMetrics", containers=containers)


def _measure(pod: Document, usage: Usage) -> Document | None:
    """Return the metrics of a pod; None if no container of it has been measured."""
    metadata = pod["metadata"]
    found = usage.pods.get(metadata["uid"])
    if found is None:
        return None
    return {
        **head("PodMetrics", pod, usage.at, found.window),
        "containers": [
            {"name": name, "usage": amounts(each.cpu, each.memory)}
            for name, each in found.containers.items()
        ],
    }


def _row(obj: Document, _now: float) -> list[Any]:
    """Return the cells of PodMetrics: the sums of its containers."""
    used = [field(each, "usage") for each in items(obj, "containers")]
    cpu = sum((_amount(each, "cpu") for each in used), Fraction())
    memory = sum((_amount(each, "memory") for each in used), Fraction())
    return [name_of(obj), render(cpu, "1n"), render(memory, "1Ki"), obj.get("window", "0s")]


def _amount(usage: Document, resource: str) -> Fraction:
    try:
        return parse(usage.get(resource, "0"))
    except ValueError:
        return Fraction()


STRATEGY = Strategy(columns=COLUMNS, row=_row, measure=_measure)
