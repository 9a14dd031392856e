"""Nobody grants what they do not have, unless their Roles say so by ``escalate`` or ``bind``.

Rules and messages: ``pkg/registry/rbac`` of Kubernetes (``escalation_check.go`` and the packages
``policybased``); for certificates, which grant what their subject may do, the admission plugins
``CertificateApproval`` and ``CertificateSigning``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.values.causes import quote
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.errors import forbidden, not_found

from .attributes import Attributes
from .authorizer import aggregate
from .policies import MissingRoleError
from .rules import EVERYTHING, TooManyRulesError, describe, missing, rules_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.local.apiserver.values.documents import Document

    from .authorizer import Authorizer
    from .rules import Rule

__all__ = ["UserRights"]

_GROUP = "rbac.authorization.k8s.io"
_GRANTING = {
    f"{plural}.{_GROUP}": plural
    for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
}
_CERTIFICATES = "certificates.k8s.io"
_REQUESTS = "certificatesigningrequests"
# What the garbage collector changes.
_COLLECTED = ("finalizers", "managedFields", "ownerReferences", "resourceVersion", "generation")


class UserRights:
    """What a user may do, for the writes of one request.

    Args:
        authorizer: decides.
        user: who sent the request.
        attributes: the action of the request.
    """

    def __init__(self, authorizer: Authorizer, user: Document, attributes: Attributes) -> None:
        self._authorizer = authorizer
        self._user = user
        self._attributes = attributes

    def check_create(self) -> None:
        """See `Rights.check_create`."""
        self._authorizer.require(self._user, self._attributes._replace(verb="create"))

    def check_grant(self, identifier: str, new: Document, old: Document | None) -> None:
        """See `Rights.check_grant`."""
        if identifier == f"{_REQUESTS}.{_CERTIFICATES}" and old is not None:
            self._check_signer(new, old)
            return
        plural = _GRANTING.get(identifier)
        if plural is None or (old is not None and _without_owners(new) == _without_owners(old)):
            return
        name = new["metadata"]["name"]
        if plural in {"roles", "clusterroles"}:
            if self._may(self._attributes._replace(verb="escalate", subresource="")):
                return
            self._check_covered(plural, name, rules_of(new))
            if (_aggregates(new) or _aggregates(old)) and self._missing(EVERYTHING):
                why = "must have cluster-admin privileges to use the aggregationRule"
                raise forbidden(plural, _GROUP, name, why)
            return
        reference = field(new, "roleRef")
        kind, role = str(reference.get("kind")), str(reference.get("name"))
        namespace = self._attributes.namespace
        resource = {"Role": "roles", "ClusterRole": "clusterroles"}.get(kind)
        group = str(reference.get("apiGroup"))
        if resource is not None and self._may(
            Attributes("bind", group, resource, namespace=namespace, name=role)
        ):
            return
        try:
            rules = self._authorizer.policies.role_rules(kind, role, namespace)
        except MissingRoleError:
            # Upstream's storage takes the resource of the request for that of the Role.
            raise not_found(plural, _GROUP, role) from None
        self._check_covered(plural, name, rules)

    def _check_signer(self, new: Document, old: Document) -> None:
        """Check that the user may approve requests for a signer, or sign as that signer."""
        subresource, signer = self._attributes.subresource, str(field(old, "spec")["signerName"])
        if subresource == "approval":
            verb = "approve"
        elif subresource == "status" and any(
            field(new, "status").get(key) != field(old, "status").get(key)
            for key in ("certificate", "conditions")
        ):
            verb = "sign"
        else:
            return
        every = f"{signer.partition('/')[0]}/*"
        for name in (signer, every):
            if self._may(Attributes(verb, _CERTIFICATES, "signers", name=name)):
                return
        why = f"user not permitted to {verb} requests with signerName {quote(signer)}"
        raise forbidden(_REQUESTS, _CERTIFICATES, new["metadata"]["name"], why)

    def _may(self, attributes: Attributes) -> bool:
        return self._authorizer.authorize(self._user, attributes).allowed

    def _missing(self, wanted: Sequence[Rule]) -> list[Rule]:
        rules, _ = self._authorizer.rules(self._user, self._attributes.namespace)
        return missing(rules, wanted)

    def _check_covered(self, plural: str, name: str, wanted: Sequence[Rule]) -> None:
        try:
            lacking = self._missing(wanted)
        except TooManyRulesError:
            why = "it grants more permissions than can be compared with those of the user"
            raise forbidden(plural, _GROUP, name, why) from None
        if not lacking:
            return
        groups = " ".join(map(quote, self._user.get("groups") or ()))
        why = (
            f"user {quote(self._user.get('username', ''))} (groups=[{groups}]) is attempting to "
            f"grant RBAC permissions not currently held:\n{describe(lacking)}"
        )
        errors = [
            not_found(plural, _GROUP, granted.role).message
            for granted in self._authorizer.granted(self._user, self._attributes.namespace)
            if granted.error
        ]
        if errors:
            why += f"; resolution errors: [{aggregate(errors)}]"
        raise forbidden(plural, _GROUP, name, why)


def _aggregates(document: Document | None) -> bool:
    return bool(field(document, "aggregationRule").get("clusterRoleSelectors"))


def _without_owners(document: Document) -> Document:
    metadata = document["metadata"]
    kept = {key: value for key, value in metadata.items() if key not in _COLLECTED}
    return {**document, "metadata": kept}
