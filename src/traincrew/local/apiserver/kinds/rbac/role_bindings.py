"""RoleBindings and ClusterRoleBindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.documents import field, items

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a RoleBinding or ClusterRoleBinding."""
    reference = field(obj, "roleRef")
    found: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in items(obj, "subjects"):
        name = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        if subject.get("kind") in found:
            found[subject["kind"]].append(name)
    return [
        name_of(obj),
        f"{reference.get('kind', '')}/{reference.get('name', '')}",
        age_of(obj, now),
        *(", ".join(names) for names in found.values()),
    ]


_RBAC = "rbac.authorization.k8s.io"


def _default(obj: Document) -> None:
    reference = obj.get("roleRef")
    if type(reference) is dict and not reference.get("apiGroup"):
        reference["apiGroup"] = _RBAC
    for subject in items(obj, "subjects"):
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = _RBAC


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
    columns="Name Role Age Users* Groups* ServiceAccounts*",
    row=_row,
    default=_default,
)
