"""RuntimeClasses."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "node.k8s.io",
            "v1",
            "runtimeclasses",
            "RuntimeClass",
            namespaced=False,
            create_on_update=True,
            unconditional_update=False,
        ),
    ),
)
