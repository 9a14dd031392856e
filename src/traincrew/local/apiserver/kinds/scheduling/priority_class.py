"""PriorityClasses."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "scheduling.k8s.io",
            "v1",
            "priorityclasses",
            "PriorityClass",
            namespaced=False,
            short_names=("pc",),
            generation="content",
        ),
    ),
)
