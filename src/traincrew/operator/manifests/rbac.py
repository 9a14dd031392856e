"""What the operator may do, and what people may do with its jobs.

Least privilege: every verb below is one that the operator uses, or that the pods of a job use and
that the operator must hold to be allowed to grant it (Kubernetes documentation, "Privilege
escalation prevention and bootstrapping"). Tests read the API server's audit log and fail when a
verb is missing, and when one is never used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.operator.kinds import RESOURCES, SCALABLE
from traincrew.operator.manifests.template import Document, Either, Namespace, Value, When, text
from traincrew.operator.options import LEASE_NAME

if TYPE_CHECKING:
    from traincrew.engine.resources import Resource

RBAC = "rbac.authorization.k8s.io"
_NAME = Value("name")
_LEASE_NAMESPACE = Either(Value("watchNamespace"), Namespace())


def _rule(group: str, resources: str, verbs: str, **more: Any) -> Document:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **more}


def operator_rules() -> list[Document]:
    """Where the jobs are."""
    return [
        *(rule for kind in RESOURCES for rule in _kind_rules(kind)),
        _rule("", "serviceaccounts", "get list watch create"),
        _rule("", "configmaps", "get list watch create patch"),
        _rule(RBAC, "roles rolebindings", "get list watch create patch"),
        _rule("apps", "statefulsets", "get list watch create patch delete"),
        _rule("batch", "jobs", "get list watch create patch"),
        _rule("", "events", "create patch"),
        _rule("", "services", "get list watch create delete"),
        _rule("", "pods", "get list watch create delete"),
        # For the pods of ChainerJobs: the operator grants it, and must hold it.
        _rule("", "pods/exec", "get create"),
    ]


def _kind_rules(kind: Resource) -> list[Document]:
    """The jobs of a kind."""
    return [
        _rule(kind.group, kind.plural, "list watch patch delete"),
        _rule(kind.group, f"{kind.plural}/status", "patch"),
        # Asked by the admission plugin OwnerReferencesPermissionEnforcement of whoever sets
        # blockOwnerDeletion, which makes a foreground deletion wait for the children.
        _rule(kind.group, f"{kind.plural}/finalizers", "update"),
    ]


def lease_rules() -> list[Document]:
    """Where the Lease of the election is."""
    lease = {"resourceNames": [LEASE_NAME]}
    return [
        # A creation has no name yet that a rule could be about.
        _rule("coordination.k8s.io", "leases", "create"),
        _rule("coordination.k8s.io", "leases", "get watch update", **lease),
    ]


def service_account() -> Document:
    """The operator's identity; only pods that ask for its token get it."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": _NAME, "namespace": Namespace()},
        "automountServiceAccountToken": False,
    }


def operator_role() -> list[When]:
    """The permissions, cluster-wide or in one namespace."""
    everywhere: Document = {"name": _NAME}
    there: Document = {"name": _NAME, "namespace": Value("watchNamespace")}
    return [
        When("watchNamespace", _role("ClusterRole", everywhere, operator_rules()), negated=True),
        When("watchNamespace", _role("Role", there, operator_rules())),
    ]


def operator_binding() -> list[When]:
    """Gives the operator its permissions."""
    everywhere: Document = {"name": _NAME}
    there: Document = {"name": _NAME, "namespace": Value("watchNamespace")}
    return [
        When("watchNamespace", _binding("ClusterRole", everywhere), negated=True),
        When("watchNamespace", _binding("Role", there)),
    ]


def _lease_metadata() -> Document:
    return {"name": text(_NAME, "-leader-election"), "namespace": _LEASE_NAMESPACE}


def lease_role() -> When:
    """The permissions that the election takes."""
    return When("leaderElection.enabled", _role("Role", _lease_metadata(), lease_rules()))


def lease_binding() -> When:
    """Gives the operator the permissions that the election takes."""
    return When("leaderElection.enabled", _binding("Role", _lease_metadata()))


def user_roles() -> dict[tuple[str, str], When]:
    """Who may edit or view a namespace may do so with its jobs, too; by kind and role."""
    everything = "create delete deletecollection get list patch update watch"
    roles = (
        ("editor", ("admin", "edit"), everything),
        ("viewer", ("view",), "get list watch"),
    )
    return {
        (kind.kind.lower(), who): _user_role(kind, who, into, verbs)
        for kind in RESOURCES
        for who, into, verbs in roles
    }


def _user_role(kind: Resource, who: str, into: tuple[str, ...], verbs: str) -> When:
    labels = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in into}
    rules = [
        _rule(kind.group, kind.plural, verbs),
        _rule(kind.group, f"{kind.plural}/status", "get"),
    ]
    if who == "editor" and kind in SCALABLE:
        rules.append(_rule(kind.group, f"{kind.plural}/scale", "get patch update"))
    metadata = {"name": text(_NAME, f"-{kind.kind.lower()}-{who}"), "labels": labels}
    return When("userRoles.enabled", _role("ClusterRole", metadata, rules))


def _role(kind: str, metadata: Document, rules: list[Document]) -> Document:
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _binding(kind: str, metadata: Document) -> Document:
    """Binds a role to the operator; both have the same name."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": _NAME, "namespace": Namespace()}],
    }
