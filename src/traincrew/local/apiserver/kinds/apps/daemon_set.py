"""DaemonSets; no controller runs them here."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "apps",
            "v1",
            "daemonsets",
            "DaemonSet",
            short_names=("ds",),
            categories=("all",),
            status=True,
            generation="spec",
        ),
    ),
)
