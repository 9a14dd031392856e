"""HorizontalPodAutoscalers; no controller runs them here."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.autoscaling import versions
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "autoscaling",
            "v2",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            short_names=("hpa",),
            categories=("all",),
            status=True,
        ),
        ResourceType(
            "autoscaling",
            "v1",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            short_names=("hpa",),
            categories=("all",),
            status=True,
            storage_version="v2",
            from_storage=versions.from_v2,
            to_storage=versions.to_v2,
        ),
    ),
)
