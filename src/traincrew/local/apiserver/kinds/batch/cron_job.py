"""CronJobs; no controller runs them here."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "batch",
            "v1",
            "cronjobs",
            "CronJob",
            short_names=("cj",),
            categories=("all",),
            status=True,
            generation="spec",
        ),
    ),
)
