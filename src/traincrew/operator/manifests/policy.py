"""A ValidatingAdmissionPolicy that limits the operator to what it does.

RBAC cannot say "Pods, but only those of a job". This policy does, for the ServiceAccount of an
operator that serves all namespaces: docs/design/operator-permissions.md. Without an owner that is a
job it may write events, leases, and the two objects of reported progress in its own namespace: the
Secret with the CA, and the EndpointSlice of its Service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds import KINDS
from traincrew.operator.manifests.template import Document, Namespace, Text, Value, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.operator.manifests.template import Part

PLATFORM = ("kube-system", "kube-public", "kube-node-lease")
"""Namespaces of Kubernetes itself, in which the operator writes nothing."""
KEY_TYPES = ("Opaque", "kubernetes.io/ssh-auth")
"""Types of the Secrets with ssh keys."""
_REGISTRATION = "admissionregistration.k8s.io/v1"
# Written without an owner: they are not children.
_OWN = ("events", "leases")
_SERVICE_LABEL = "kubernetes.io/service-name"


def operator_policy() -> list[Document]:
    """Return the policy and its binding."""
    name = Value("name")
    account = ("system:serviceaccount:", Namespace(), ":", name)
    rule = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", "DELETE", "CONNECT"],
        "resources": ["*/*"],
        "scope": "Namespaced",
    }
    condition = {
        "name": "is-the-operator",
        "expression": text("request.userInfo.username == '", *account, "'"),
    }
    policy = {
        "apiVersion": _REGISTRATION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [condition],
            "validations": [
                {"expression": expression, "message": message}
                for expression, message in _validations()
            ],
        },
    }
    binding = {
        "apiVersion": _REGISTRATION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return [policy, binding]


def _validations() -> list[tuple[str | Text, str]]:
    """Return the conditions for every write, and the message if one is not met."""
    addresses = "!has(object.spec.externalIPs) || size(object.spec.externalIPs) == 0"
    return [
        (
            f"!(request.namespace in {_list(PLATFORM)})",
            "the operator serves no jobs in this namespace",
        ),
        (_creates_children(), "the operator creates only children of jobs"),
        (_changes_children(), "the operator changes only jobs, their children and pods"),
        (
            _each("secrets", f"object.type in {_list(KEY_TYPES)}"),
            "the operator writes only ssh keys, no tokens",
        ),
        (_each("services", addresses), "the operator diverts no addresses"),
        ("request.operation != 'CONNECT'", "the operator runs no commands in pods"),
    ]


def _creates_children() -> Text:
    """Return an expression for what is created in earnest."""
    return text(
        "request.operation != 'CREATE' || (has(request.dryRun) && request.dryRun)"
        f" || request.resource.resource in {_list(_OWN)} || {_owned('object')} || (",
        *_is_own("", "secrets", "-progress-ca"),
        ") || ",
        *_is_own_endpoint(),
    )


def _changes_children() -> Text:
    """Return an expression for what is changed; pods may be those of a child."""
    groups = _list(dict.fromkeys(kind.group for kind in KINDS))
    return text(
        "!(request.operation in ['UPDATE', 'DELETE'])"
        f" || request.resource.resource in {_list([*_OWN, 'pods'])}"
        f" || request.resource.group in {groups} || {_owned('oldObject')}"
        " || (request.operation == 'UPDATE' && ",
        *_is_own_endpoint(),
        ")",
    )


def _is_own_endpoint() -> tuple[Part, ...]:
    """Return an expression for the EndpointSlice of the Service for reports, and no other one's."""
    label = f"'{_SERVICE_LABEL}'"
    labels = "object.metadata.labels"
    return (
        "(",
        *_is_own("discovery.k8s.io", "endpointslices", "-progress"),
        f" && has({labels}) && {label} in {labels} && {labels}[{label}] == '",
        Value("name"),
        "-progress')",
    )


def _is_own(group: str, resource: str, suffix: str) -> tuple[Part, ...]:
    """Return an expression for one object in the operator's namespace, by its new state."""
    about = f"request.resource.group == '{group}' && request.resource.resource == '{resource}'"
    return (
        "request.namespace == '",
        Namespace(),
        f"' && {about} && object.metadata.name == '",
        Value("name"),
        f"{suffix}'",
    )


def _each(resource: str, condition: str) -> str:
    """Return an expression for the new state of objects of a resource."""
    return f"request.resource.resource != '{resource}' || object == null || {condition}"


def _owned(state: str) -> str:
    """Return an expression for a state of an object that belongs to a job."""
    kinds = _list(dict.fromkeys(each.kind for each in KINDS))
    owners = f"{state}.metadata.ownerReferences"
    return f"(has({owners}) && {owners}.exists(owner, owner.kind in {kinds}))"


def _list(words: Iterable[str]) -> str:
    return f"[{', '.join(repr(word) for word in words)}]"
