"""LimitRanges."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "", "v1", "limitranges", "LimitRange", short_names=("limits",), create_on_update=True
        ),
    ),
)
