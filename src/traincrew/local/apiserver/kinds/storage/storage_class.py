"""StorageClasses."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "storage.k8s.io",
            "v1",
            "storageclasses",
            "StorageClass",
            namespaced=False,
            short_names=("sc",),
        ),
    ),
)
