"""Questions about rights: everybody who knows the secret may do everything.

Roles and bindings are stored but not enforced; the answers say so truthfully.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .registry import ResourceType
    from .tokens import Tokens

__all__ = ["USER", "answer"]

Document = dict[str, Any]

USER: Document = {
    "username": "traincrew:admin",
    "groups": ["system:masters", "system:authenticated"],
}


def _extra(claims: Document) -> dict[str, list[str]]:
    """What is known about a token beside its account."""
    extra = {"credential-id": [f"JTI={claims['jti']}"]} if "jti" in claims else {}
    for kind in ("pod", "node"):
        for field, value in (claims["kubernetes.io"].get(kind) or {}).items():
            extra[f"{kind}-{field}"] = [value]
    return {f"authentication.kubernetes.io/{key}": value for key, value in extra.items()}


def answer(resource: ResourceType, document: Document, tokens: Tokens) -> Document:
    """The review with its status."""
    status: Document
    if resource.kind == "SelfSubjectReview":
        status = {"userInfo": USER}
    elif resource.kind == "TokenReview":
        spec = document.get("spec") or {}
        claims = tokens.claims(str(spec.get("token", "")))
        if claims is None:
            status = {"user": {}, "error": "the token is not one of this cluster or has expired"}
        else:
            bound = claims["kubernetes.io"]
            status = {
                "authenticated": True,
                "user": {
                    "username": claims["sub"],
                    "uid": bound["serviceaccount"]["uid"],
                    "groups": [
                        "system:serviceaccounts",
                        f"system:serviceaccounts:{bound['namespace']}",
                        "system:authenticated",
                    ],
                    "extra": _extra(claims),
                },
                "audiences": claims["aud"],
            }
    elif resource.kind == "SelfSubjectRulesReview":
        status = {
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": False,
        }
    else:
        status = {"allowed": True, "reason": "roles are not enforced by this server"}
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {"creationTimestamp": None},
        "spec": document.get("spec") or {},
        "status": status,
    }
