"""PodTemplates."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "", "v1", "podtemplates", "PodTemplate", generation="content", returns_deleted=True
        ),
    ),
)
