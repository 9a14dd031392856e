"""Reviews of access, of tokens and of oneself: whoever has a valid token may do everything.

Roles and bindings are stored but not enforced; the reviews report exactly that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.schema.decoding import decode_fault
from traincrew.local.apiserver.values.errors import bad_request

from .tokens import AUDIENCE, InvalidTokenError

if TYPE_CHECKING:
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.values.documents import Document

    from .users import Users

__all__ = ["answer"]


def answer(resource: ResourceType, document: Document, user: Document, users: Users) -> Document:
    """Return the review with its status.

    Args:
        resource: resource of the review.
        document: the review.
        user: who asks.
        users: knows whom a token belongs to.

    Raises:
        StatusError: 400 for values of a wrong type, or a review without a token.
    """
    fault = decode_fault(resource.schema.node, document)
    if fault is not None:
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: {fault}"
        )
    status: Document
    if resource.kind == "SelfSubjectReview":
        status = {"userInfo": user}
    elif resource.kind == "TokenReview":
        status = _token_status(document.get("spec") or {}, users)
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


def _token_status(spec: Document, users: Users) -> Document:
    token = spec.get("token")
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    try:
        identity = users.identify(token, spec.get("audiences") or [AUDIENCE])
    except InvalidTokenError as error:
        return {"user": {}, "error": str(error)}
    return {"authenticated": True, "user": identity.user, "audiences": identity.audiences}
