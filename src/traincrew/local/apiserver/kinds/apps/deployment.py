"""Deployments."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, ScalePaths, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "apps",
            "v1",
            "deployments",
            "Deployment",
            short_names=("deploy",),
            categories=("all",),
            status=True,
            # Annotations count, because they are copied to the Deployment's ReplicaSets.
            generation="spec and annotations",
            scale=ScalePaths(selector=".spec.selector"),
        ),
    ),
)
