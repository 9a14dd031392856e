"""RBAC: the permissions of the operator, and those of users on its jobs.

Least privilege: every verb below is used by the operator, or by the pods of a job, in which case
the operator must hold it to be allowed to grant it (Kubernetes documentation, "Privilege escalation
prevention and bootstrapping"). Tests read the API server's audit log and fail if a verb is missing
or never used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, LEASES
from traincrew.operator.kinds import (
    INSTALLED,
    INSTALLED_RESOURCES,
    PROJECT_KINDS,
    SCALE_SERVED,
    resource_of,
)
from traincrew.operator.manifests.template import Document, Either, Namespace, Value, When, text
from traincrew.operator.options import LEASE_NAME
from traincrew.operator.queues import CLASSES, FLAVORS, POD_CLASSES, WORKLOADS
from traincrew.plan.shared.kind import PODS
from traincrew.plan.shared.schedulers import ENGINES, PLURAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.engine.resources import Resource
    from traincrew.plan.shared.kind import PlannedKind

RBAC = "rbac.authorization.k8s.io"
_NAME = Value("name")
_QUEUES: Document = {"name": text(_NAME, "-queues")}
LEASE_NAMESPACE = Either(Value("watchNamespace"), Namespace())
"""The namespace of the operator's Lease."""


def _rule(group: str, resources: str, verbs: str, **more: Any) -> Document:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **more}


def operator_rules() -> list[Document]:
    """Return the rules for the namespaces of the jobs."""
    return [
        *(
            rule
            for kind, resource in zip(INSTALLED, INSTALLED_RESOURCES, strict=True)
            for rule in _kind_rules(resource, writes=kind.writes_spec)
        ),
        *_child_rules(INSTALLED),
        _rule("", "events", "create patch"),
        # Pods are labelled, deleted and created by a dry run, whichever controller creates them.
        _rule("", "pods", "get list watch create patch delete"),
        # The output of a failed program, if the kubelet has kept only that of its launcher.
        _rule("", "pods/log", "get"),
        *_gang_rules(),
        *_queue_rules(),
        *_granted_rules(INSTALLED),
    ]


def _child_rules(kinds: Iterable[PlannedKind]) -> list[Document]:
    """Return the rules for children: one for each API group and set of verbs."""
    deleted = {child for kind in kinds for child in kind.deletes}
    children = dict.fromkeys(child for kind in kinds for child in kind.children)
    rules: dict[tuple[str, str], list[str]] = {}
    for child in children:
        if child != PODS:
            verbs = "get list watch create patch" if child.watched else "get create"
            verbs += " patch" if child.has_keys else ""
            verbs += " delete" if child in deleted else ""
            rules.setdefault((child.group, verbs), []).append(child.plural)
    for child in dict.fromkeys(child for kind in kinds for child in kind.descendants):
        rules.setdefault((child.group, "list watch"), []).append(child.plural)
    return [_rule(group, " ".join(found), verbs) for (group, verbs), found in rules.items()]


def _gang_rules() -> list[Document]:
    """Return the rules for the PodGroups of every scheduler that places pods together."""
    return [_rule(engine.group, PLURAL, " ".join(engine.verbs)) for engine in ENGINES.values()]


def _queue_rules() -> list[Document]:
    """Return the rules for the Workloads of jobs in queues."""
    return [
        _rule(WORKLOADS.group, WORKLOADS.plural, "get list watch create patch delete"),
        _rule(WORKLOADS.group, f"{WORKLOADS.plural}/status", "patch"),
    ]


def queue_rules() -> list[Document]:
    """Return the rules for what queues refer to, which is in no namespace."""
    return [
        _rule(FLAVORS.group, f"{FLAVORS.plural} {CLASSES.plural}", "get"),
        _rule(POD_CLASSES.group, POD_CLASSES.plural, "get list"),
    ]


def _granted_rules(kinds: Iterable[PlannedKind]) -> list[Document]:
    """Return the rules that the operator grants to the pods of jobs, and must hold for that."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for kind in kinds:
        for granted in kind.grants:
            verbs.setdefault((granted.group, granted.resource), []).extend(granted.verbs)
    return [
        _rule(group, resource, " ".join(dict.fromkeys(found)))
        for (group, resource), found in verbs.items()
    ]


def _kind_rules(kind: Resource, *, writes: bool = False, deletes: bool = True) -> list[Document]:
    """Return the rules for the jobs of a kind: they may be patched, and deleted at their end."""
    verbs = f"list watch{' patch' if writes else ''}{' delete' if deletes else ''}"
    return [
        _rule(kind.group, kind.plural, verbs),
        _rule(kind.group, f"{kind.plural}/status", "patch"),
        # Required by the admission plugin OwnerReferencesPermissionEnforcement to set
        # blockOwnerDeletion, which makes a foreground deletion wait for the children.
        _rule(kind.group, f"{kind.plural}/finalizers", "update"),
    ]


def project_rules(kind: PlannedKind) -> list[Document]:
    """Return the rules for the namespaces of the jobs of another project's kind."""
    children = {(each.group, each.plural) for each in kind.children}
    # What the definition drops of the status is written into an annotation of the job.
    return [
        *_kind_rules(resource_of(kind), writes=True, deletes=kind.expires),
        *_child_rules([kind]),
        *_granted_rules([kind]),
        *(
            _rule(each.group, each.plural, _reference_verbs(kind))
            for each in kind.references
            if each.namespaced and (each.group, each.plural) not in children
        ),
    ]


def _reference_verbs(kind: PlannedKind) -> str:
    return "get" if kind.protection is None else "get list watch patch"


def protection_rules(kind: PlannedKind) -> list[Document]:
    """Return the rules for protecting what is in no namespace: only for jobs of all namespaces."""
    return [
        _rule(each.group, each.plural, "list watch patch")
        for each in kind.references
        if kind.protection is not None and not each.namespaced
    ]


def ownership_rules(kind: PlannedKind) -> list[Document]:
    """Return the rules for what is in no namespace, or in any.

    The project's own operator, if it runs, and objects that jobs of all namespaces refer to.
    """
    project, resource = kind.definition.project, resource_of(kind)
    assert project is not None
    named = {"resourceNames": [f"{resource.plural}.{resource.group}"]}
    definitions, leases = CUSTOM_RESOURCE_DEFINITIONS, LEASES
    rules = [
        _rule(DEPLOYMENTS.group, DEPLOYMENTS.plural, "list watch"),
        _rule(definitions.group, definitions.plural, "list watch", **named),
        *(_rule(each.group, each.plural, "get") for each in kind.references if not each.namespaced),
    ]
    if project.lease:
        named = {"resourceNames": [project.lease]}
        rules.append(_rule(leases.group, leases.plural, "list watch", **named))
    return rules


def lease_rules() -> list[Document]:
    """Return the rules for the namespace of the Lease."""
    lease = {"resourceNames": [LEASE_NAME]}
    return [
        # A rule for create cannot be limited to a name.
        _rule("coordination.k8s.io", "leases", "create"),
        _rule("coordination.k8s.io", "leases", "get watch update", **lease),
    ]


def service_account() -> Document:
    """Return the operator's ServiceAccount; its token is mounted only into pods that request it."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": _NAME, "namespace": Namespace()},
        "automountServiceAccountToken": False,
    }


def operator_role() -> list[When]:
    """Return the operator's ClusterRole, or its Role in one namespace."""
    everywhere: Document = {"name": _NAME}
    there: Document = {"name": _NAME, "namespace": Value("watchNamespace")}
    return [
        When(
            "watchNamespace",
            _role("ClusterRole", everywhere, [*operator_rules(), *queue_rules()]),
            negated=True,
        ),
        When("watchNamespace", _role("Role", there, operator_rules())),
        # Flavors and classes of priority are in no namespace.
        When("watchNamespace", _role("ClusterRole", _QUEUES, queue_rules())),
    ]


def operator_binding() -> list[When]:
    """Return the binding of the operator's role."""
    everywhere: Document = {"name": _NAME}
    there: Document = {"name": _NAME, "namespace": Value("watchNamespace")}
    return [
        When("watchNamespace", _binding("ClusterRole", everywhere), negated=True),
        When("watchNamespace", _binding("Role", there)),
        When("watchNamespace", _binding("ClusterRole", _QUEUES)),
    ]


def project_roles() -> list[When]:
    """Return the roles for the kinds of other projects, each with its binding, where asked for.

    Their own operators may be in any namespace.
    """
    return [
        When(f"kinds.{kind.definition.kind}", each)
        for kind in PROJECT_KINDS
        for each in _roles_of(kind)
    ]


def _roles_of(kind: PlannedKind) -> list[Any]:
    """Return the roles of one kind of another project."""
    resource, name = resource_of(kind), project_role(kind)
    everywhere: Document = {"name": text(_NAME, f"-{name}")}
    there: Document = {**everywhere, "namespace": Value("watchNamespace")}
    owners: Document = {"name": text(_NAME, f"-{name}-owner")}
    rules = project_rules(kind)
    return [
        When(
            "watchNamespace",
            _role("ClusterRole", everywhere, [*rules, *protection_rules(kind)]),
            negated=True,
        ),
        When("watchNamespace", _binding("ClusterRole", everywhere), negated=True),
        When("watchNamespace", _role("Role", there, rules)),
        When("watchNamespace", _binding("Role", there)),
        _role("ClusterRole", owners, ownership_rules(kind)),
        _binding("ClusterRole", owners),
        *(
            _user_role(name, who, into, _user_rules([resource], who, verbs))
            for who, into, verbs in _USERS
        ),
    ]


def project_role(kind: PlannedKind) -> str:
    """Return the name of the role for another project's kind, after that of the installation.

    Kinds of two projects may have names that differ in case only.
    """
    project = kind.definition.project
    assert project is not None
    named = dict.fromkeys((project.name.lower(), kind.definition.kind.lower()))
    return "-".join(named)


def metrics_roles() -> list[When]:
    """Return the roles for secure metrics: to review clients, and to be one; the first is bound.

    Reviews have no namespace, so an operator of one namespace needs the ClusterRole as well.
    """
    enabled = "metrics.secure.enabled"
    reviewer: Document = {"name": text(_NAME, "-metrics-auth")}
    reader: Document = {"name": text(_NAME, "-metrics-reader")}
    return [
        When(enabled, _role("ClusterRole", reviewer, metrics_rules())),
        When(enabled, _binding("ClusterRole", reviewer)),
        When(
            enabled,
            _role("ClusterRole", reader, [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]),
        ),
    ]


def metrics_rules() -> list[Document]:
    """Return the rules for reviewing the clients of secure metrics."""
    return [
        _rule("authentication.k8s.io", "tokenreviews", "create"),
        _rule("authorization.k8s.io", "subjectaccessreviews", "create"),
    ]


def _lease_metadata() -> Document:
    return {"name": text(_NAME, "-leader-election"), "namespace": LEASE_NAMESPACE}


def lease_role() -> When:
    """Return the Role for leader election."""
    return When("leaderElection.enabled", _role("Role", _lease_metadata(), lease_rules()))


def lease_binding() -> When:
    """Return the binding of the Role for leader election."""
    return When("leaderElection.enabled", _binding("Role", _lease_metadata()))


_PROGRESS = text(_NAME, "-progress")


def progress_roles() -> list[When]:
    """Return the roles for reports of progress, and their bindings.

    Reviews of tokens are not in a namespace. The rest is in that of the operator: the CA, and the
    endpoint of the Service.
    """
    everywhere: Document = {"name": _PROGRESS}
    there: Document = {"name": _PROGRESS, "namespace": Namespace()}
    named = {"resourceNames": [_PROGRESS]}
    rules = [
        # Rules for create cannot be limited to a name.
        _rule("", "secrets", "create"),
        _rule("", "secrets", "get", resourceNames=[text(_NAME, "-progress-ca")]),
        _rule("", "services", "get", **named),
        _rule("discovery.k8s.io", "endpointslices", "create"),
        _rule("discovery.k8s.io", "endpointslices", "patch", **named),
    ]
    reviews = [_rule("authentication.k8s.io", "tokenreviews", "create")]
    return [
        When("progress.enabled", document)
        for document in (
            _role("ClusterRole", everywhere, reviews),
            _binding("ClusterRole", everywhere),
            _role("Role", there, rules),
            _binding("Role", there),
        )
    ]


_USERS = (
    ("editor", ("admin", "edit"), "create delete deletecollection get list patch update watch"),
    ("viewer", ("view",), "get list watch"),
)
"""Each role of users, the built-in roles that it is added to, and its verbs."""


def user_roles() -> dict[tuple[str, str], When]:
    """Return roles, by kind and name, that aggregate access to jobs to admin, edit and view."""
    groups: dict[str, list[Resource]] = {}
    for resource in INSTALLED_RESOURCES:
        groups.setdefault(resource.kind.lower(), []).append(resource)
    return {
        (kind, who): _user_role(kind, who, into, _user_rules(resources, who, verbs))
        for kind, resources in groups.items()
        for who, into, verbs in _USERS
    }


def _user_rules(resources: list[Resource], who: str, verbs: str) -> list[Document]:
    """Return the rules for a kind in all its groups."""
    rules = []
    for resource in resources:
        group, plural = resource.group, resource.plural
        rules += [_rule(group, plural, verbs), _rule(group, f"{plural}/status", "get")]
        if who == "editor" and resource in SCALE_SERVED:
            rules.append(_rule(group, f"{plural}/scale", "get patch update"))
    return rules


def _user_role(kind: str, who: str, into: tuple[str, ...], rules: list[Document]) -> When:
    labels = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in into}
    metadata = {"name": text(_NAME, f"-{kind}-{who}"), "labels": labels}
    return When("userRoles.enabled", _role("ClusterRole", metadata, rules))


def _role(kind: str, metadata: Document, rules: list[Document]) -> Document:
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _binding(kind: str, metadata: Document) -> Document:
    """Return the binding of a role to the operator; both have the same name."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": _NAME, "namespace": Namespace()}],
    }
