"""IngressClasses."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "networking.k8s.io",
            "v1",
            "ingressclasses",
            "IngressClass",
            namespaced=False,
            generation="spec",
        ),
    ),
)
