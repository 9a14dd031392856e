"""Leases."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "coordination.k8s.io",
            "v1",
            "leases",
            "Lease",
            create_on_update=True,
            unconditional_update=False,
        ),
    ),
)
