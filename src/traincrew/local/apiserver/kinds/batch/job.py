"""Jobs."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.selectors import FieldLabels

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "batch",
            "v1",
            "jobs",
            "Job",
            categories=("all",),
            status=True,
            generation="spec",
            orphan_by_default=True,
        ),
    ),
    selectable=FieldLabels(
        {"status.successful": ("status.succeeded",)},
        absent={"status.successful": "0"},
        own_message=True,
    ),
)
