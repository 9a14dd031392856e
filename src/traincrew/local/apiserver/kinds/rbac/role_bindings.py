"""RoleBindings and ClusterRoleBindings."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", create_on_update=True
        ),
        ResourceType(
            "rbac.authorization.k8s.io",
            "v1",
            "clusterrolebindings",
            "ClusterRoleBinding",
            namespaced=False,
            create_on_update=True,
        ),
    ),
)
