"""ControllerRevisions."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(ResourceType("apps", "v1", "controllerrevisions", "ControllerRevision"),),
)
