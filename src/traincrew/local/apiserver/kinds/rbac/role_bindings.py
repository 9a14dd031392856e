"""RoleBindings and ClusterRoleBindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.shared.meta import path_segment_fault
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import subdomain_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
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


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a RoleBinding or ClusterRoleBinding."""
    namespaced = obj.get("kind") == "RoleBinding"
    reference = field(obj, "roleRef")
    if reference.get("apiGroup") != _RBAC:
        value = reference.get("apiGroup", "")
        found.append(why.not_supported("roleRef.apiGroup", value, (_RBAC,)))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        found.append(why.not_supported("roleRef.kind", reference.get("kind", ""), kinds))
    name = reference.get("name", "")
    if not name:
        found.append(why.required("roleRef.name"))
    elif path_segment_fault(name):
        found.append(why.invalid("roleRef.name", name, path_segment_fault(name)))
    for index, subject in enumerate(items(obj, "subjects")):
        _subject(found, subject, f"subjects[{index}]", namespaced=namespaced)
    if old is not None and reference != field(old, "roleRef"):
        keys = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}
        shown = {name: reference.get(key, "") for name, key in keys.items()}
        found.append(why.invalid("roleRef", shown, "cannot change roleRef"))


def _subject(found: list[Cause], subject: Document, path: str, *, namespaced: bool) -> None:
    kind, group = subject.get("kind", ""), subject.get("apiGroup", "")
    name = subject.get("name", "")
    if kind == "ServiceAccount":
        fault = subdomain_fault(name) if name else ""
        if fault:
            found.append(why.invalid(f"{path}.name", name, fault))
        if group:
            found.append(why.not_supported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            found.append(why.required(f"{path}.namespace"))
    elif kind in ("User", "Group"):
        if group != _RBAC:
            found.append(why.not_supported(f"{path}.apiGroup", group, (_RBAC,)))
    else:
        supported = ("ServiceAccount", "User", "Group")
        found.append(why.not_supported(f"{path}.kind", kind, supported))


STRATEGY = Strategy(
    columns="Name Role Age Users* Groups* ServiceAccounts*",
    row=_row,
    default=_default,
    validate=_validate,
    name_fault=path_segment_fault,
)
