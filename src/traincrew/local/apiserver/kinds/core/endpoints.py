"""Endpoints: the addresses behind a Service."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "", "v1", "endpoints", "Endpoints", short_names=("ep",), create_on_update=True
        ),
    ),
)
