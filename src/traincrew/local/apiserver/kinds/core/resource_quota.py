"""ResourceQuotas."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "",
            "v1",
            "resourcequotas",
            "ResourceQuota",
            short_names=("quota",),
            status=True,
            returns_deleted=True,
        ),
    ),
)
