"""PersistentVolumes; those of the embedded cluster are directories."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "",
            "v1",
            "persistentvolumes",
            "PersistentVolume",
            namespaced=False,
            short_names=("pv",),
            status=True,
            returns_deleted=True,
        ),
    ),
)
