"""EndpointSlices."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", generation="content"
        ),
    ),
)
