"""Nodes."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.selectors import FieldLabels

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType("", "v1", "nodes", "Node", namespaced=False, short_names=("no",), status=True),
    ),
    selectable=FieldLabels.of("spec.unschedulable", absent={"spec.unschedulable": "false"}),
)
