"""NetworkPolicies."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "networking.k8s.io",
            "v1",
            "networkpolicies",
            "NetworkPolicy",
            short_names=("netpol",),
            generation="spec",
            significant_empty=("spec",),
        ),
    ),
)
