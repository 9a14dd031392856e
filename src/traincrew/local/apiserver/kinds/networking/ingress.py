"""Ingresses."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "networking.k8s.io",
            "v1",
            "ingresses",
            "Ingress",
            short_names=("ing",),
            status=True,
            generation="spec",
        ),
    ),
)
