"""Reviews of access, of rules, of tokens and of oneself.

Rules and messages: ``pkg/registry/authorization`` and ``pkg/apis/authorization/validation`` of
Kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.authorization import Attributes
from traincrew.local.apiserver.schema.decoding import decode_fault
from traincrew.local.apiserver.values import causes
from traincrew.local.apiserver.values.errors import bad_request, invalid

from .tokens import AUDIENCE, InvalidTokenError

if TYPE_CHECKING:
    from traincrew.local.apiserver.authorization import Authorizer
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

    from .users import Users

__all__ = ["answer"]


def answer(
    resource: ResourceType,
    document: Document,
    call: Call,
    *,
    users: Users,
    authorizer: Authorizer,
) -> Document:
    """Return the review with its status.

    Args:
        resource: resource of the review.
        document: the review.
        call: the request; its user is whom reviews of oneself are about.
        users: knows whom a token belongs to.
        authorizer: knows what users may do.

    Raises:
        StatusError: 400 for values of a wrong type, or a review without a token or namespace; 422
            for a review of access without a user or resource.
    """
    fault = decode_fault(resource.schema.node, document)
    if fault is not None:
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: {fault}"
        )
    spec = document.get("spec") or {}
    status: Document
    if resource.kind == "SelfSubjectReview":
        status = {"userInfo": call.user}
    elif resource.kind == "TokenReview":
        status = _token_status(spec, users)
    elif resource.kind == "SelfSubjectRulesReview":
        status = _rules_status(spec, call.user, authorizer)
    else:
        _check_access_review(resource, spec, call.target.namespace)
        user = call.user
        if resource.kind != "SelfSubjectAccessReview":
            user = {"username": spec.get("user", ""), "groups": spec.get("groups") or []}
        decision = authorizer.authorize(user, _attributes(spec))
        status = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
    metadata: Document = {"creationTimestamp": None}
    if resource.namespaced:
        metadata |= {"namespace": call.target.namespace}
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def _attributes(spec: Document) -> Attributes:
    """Return the action that a review of access is about."""
    wanted = spec.get("resourceAttributes")
    if wanted is None:
        other = spec["nonResourceAttributes"]
        return Attributes(other.get("verb", ""), path=other.get("path", ""), is_resource=False)
    return Attributes(
        wanted.get("verb", ""),
        wanted.get("group", ""),
        wanted.get("resource", ""),
        wanted.get("subresource", ""),
        wanted.get("namespace", ""),
        wanted.get("name", ""),
    )


def _check_access_review(resource: ResourceType, spec: Document, namespace: str | None) -> None:
    """Check that a review names a user and a resource.

    Raises:
        StatusError: 422.
    """
    found: list[Cause] = []
    of_resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if of_resource is not None and other is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        found.append(causes.invalid("spec.nonResourceAttributes", other, detail))
    if of_resource is None and other is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        found.append(causes.invalid("spec.resourceAttributes", None, detail))
    if resource.kind != "SelfSubjectAccessReview" and not (spec.get("user") or spec.get("groups")):
        detail = "at least one of user or group must be specified"
        found.append(causes.invalid("spec.user", "", detail))
    if resource.namespaced:
        given = (of_resource or {}).get("namespace", "")
        if of_resource is not None and given != namespace:
            place, detail = "spec.resourceAttributes.namespace", "must match metadata.namespace"
            found.append(causes.invalid(place, given, detail))
        if other is not None:
            detail = "disallowed on this kind of request"
            found.append(causes.invalid("spec.nonResourceAttributes", other, detail))
    if found:
        raise invalid(resource.group, resource.kind, "", found)


def _rules_status(spec: Document, user: Document, authorizer: Authorizer) -> Document:
    namespace = spec.get("namespace")
    if not namespace:
        raise bad_request("no namespace on request")
    rules, errors = authorizer.rules(user, namespace)
    status: Document = {
        "resourceRules": [
            {"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources}
            | ({"resourceNames": rule.names} if rule.names else {})
            for rule in rules
            if rule.resources
        ],
        "nonResourceRules": [
            {"verbs": rule.verbs, "nonResourceURLs": rule.urls} for rule in rules if rule.urls
        ],
        "incomplete": False,
    }
    if errors:
        status["evaluationError"] = errors
    return status


def _token_status(spec: Document, users: Users) -> Document:
    token = spec.get("token")
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    try:
        identity = users.identify(token, spec.get("audiences") or [AUDIENCE])
    except InvalidTokenError as error:
        return {"user": {}, "error": str(error)}
    return {"authenticated": True, "user": identity.user, "audiences": identity.audiences}
