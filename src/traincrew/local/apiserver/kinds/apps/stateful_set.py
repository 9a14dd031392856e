"""StatefulSets."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, ScalePaths, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "apps",
            "v1",
            "statefulsets",
            "StatefulSet",
            short_names=("sts",),
            categories=("all",),
            status=True,
            generation="spec",
            scale=ScalePaths(selector=".spec.selector"),
        ),
    ),
)
