"""Access and token reviews: every client with the cluster's token may do everything.

Roles and bindings are stored but not enforced; the reviews report exactly that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.requests.user import USER

if TYPE_CHECKING:
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.values.documents import Document

    from .tokens import Tokens

__all__ = ["answer"]


def _extra(claims: Document) -> dict[str, list[str]]:
    """Return the extra user information in the claims of a token."""
    extra = {"credential-id": [f"JTI={claims['jti']}"]} if "jti" in claims else {}
    for kind in ("pod", "node"):
        for field, value in (claims["kubernetes.io"].get(kind) or {}).items():
            extra[f"{kind}-{field}"] = [value]
    return {f"authentication.kubernetes.io/{key}": value for key, value in extra.items()}


def answer(resource: ResourceType, document: Document, tokens: Tokens) -> Document:
    """Return the review with its status."""
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
