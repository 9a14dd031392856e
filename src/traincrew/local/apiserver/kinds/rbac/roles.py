"""Roles and ClusterRoles."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType("rbac.authorization.k8s.io", "v1", "roles", "Role", create_on_update=True),
        ResourceType(
            "rbac.authorization.k8s.io",
            "v1",
            "clusterroles",
            "ClusterRole",
            namespaced=False,
            create_on_update=True,
        ),
    ),
)
