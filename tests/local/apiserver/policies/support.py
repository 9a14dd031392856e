"""Admission policies for tests, and their bindings."""

from typing import Any

from local.apiserver.support import Api

Document = dict[str, Any]
GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
RULE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
    "operations": ["CREATE", "UPDATE"],
}


def policy(name: str = "p", *expressions: str, **spec: Any) -> Document:
    """Return a policy for config maps with these validations."""
    validations = [{"expression": each} for each in expressions]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [RULE]},
            **({"validations": validations} if validations else {}),
            **spec,
        },
    }


def binding(name: str = "b", to: str = "p", *actions: str, **spec: Any) -> Document:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": to, "validationActions": list(actions) or ["Deny"], **spec},
    }


async def install(api: Api, *documents: Document) -> None:
    """Create policies and bindings."""
    for document in documents:
        path = BINDINGS if document["kind"].endswith("Binding") else POLICIES
        (await api.post(path, document)).ok(201)


def config_map(name: str = "m", labels: dict[str, str] | None = None, **data: str) -> Document:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
