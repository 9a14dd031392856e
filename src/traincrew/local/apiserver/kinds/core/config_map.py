"""ConfigMaps."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "",
            "v1",
            "configmaps",
            "ConfigMap",
            short_names=("cm",),
            significant_empty=("binaryData",),
        ),
    ),
)
