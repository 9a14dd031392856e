"""The kinds of the API group `rbac.authorization.k8s.io`."""

from functools import partial

from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["RESOURCES"]

_resource = partial(
    ResourceType, "rbac.authorization.k8s.io", "v1", create_on_update=True, package=__name__
)
_roles = partial(_resource, strategy_file="roles")
_bindings = partial(_resource, strategy_file="role_bindings")

RESOURCES = (
    _roles("roles", "Role"),
    _roles("clusterroles", "ClusterRole", namespaced=False),
    _bindings("rolebindings", "RoleBinding"),
    _bindings("clusterrolebindings", "ClusterRoleBinding", namespaced=False),
)
