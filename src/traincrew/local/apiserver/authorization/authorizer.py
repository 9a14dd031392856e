"""The answer to whether a user may do something."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.values.causes import quote
from traincrew.local.apiserver.values.errors import StatusError, forbidden

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

    from .attributes import Attributes
    from .policies import Granted, Policies
    from .rules import Rule

__all__ = ["Authorizer", "Decision", "aggregate", "is_master"]

_MASTERS = "system:masters"


class Decision(NamedTuple):
    """Whether an action is allowed, and why; the reason may be empty."""

    allowed: bool
    reason: str = ""


class Authorizer:
    """Authorizes actions of users.

    Args:
        policies: the stored Roles and bindings.

    Attributes:
        policies: the stored Roles and bindings.
    """

    def __init__(self, policies: Policies) -> None:
        self.policies = policies

    def authorize(self, user: Document, attributes: Attributes) -> Decision:
        """Return whether a user may do something. Members of ``system:masters`` may do anything.

        Args:
            user: the ``userInfo``.
            attributes: the action.
        """
        if is_master(user):
            return Decision(allowed=True)
        errors = []
        for granted in self.granted(user, attributes.namespace):
            if granted.error:
                errors.append(granted.error)
            for rule in granted.rules:
                if rule.allows(attributes):
                    return Decision(allowed=True, reason=f"RBAC: allowed by {granted.source}")
        return Decision(allowed=False, reason=f"RBAC: {aggregate(errors)}" if errors else "")

    def require(self, user: Document, attributes: Attributes) -> None:
        """Check that a user may do something.

        Raises:
            StatusError: 403.
        """
        decision = self.authorize(user, attributes)
        if not decision.allowed:
            raise _forbidden(user, attributes, decision.reason)

    def rules(self, user: Document, namespace: str) -> tuple[list[Rule], str]:
        """Return the rules that apply to a user in a namespace, and what is unknown about them."""
        granted = self.granted(user, namespace)
        errors = [each.error for each in granted if each.error]
        return [rule for each in granted for rule in each.rules], aggregate(errors)

    def granted(self, user: Document, namespace: str) -> tuple[Granted, ...]:
        """Return what bindings grant to a user: cluster-wide, and in a namespace if it is given."""
        return self.policies.granted(user.get("username", ""), user.get("groups") or (), namespace)


def is_master(user: Document) -> bool:
    """Return whether a user may do anything, whatever the Roles say."""
    return _MASTERS in (user.get("groups") or ())


def aggregate(errors: list[str]) -> str:
    """Return several errors as one message."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def _forbidden(user: Document, attributes: Attributes, reason: str) -> StatusError:
    """Return 403 for an action that a user may not do."""
    who = f"User {quote(user.get('username', ''))} cannot {attributes.verb}"
    if not attributes.is_resource:
        text = f"{who} path {quote(attributes.path)}".translate(_ESCAPED)
        why = f"{text}: {reason}" if reason else text
        return StatusError(403, "Forbidden", f"forbidden: {why}", empty_details=True)
    resource = attributes.resource
    if attributes.subresource:
        resource += f"/{attributes.subresource}"
    where = "at the cluster scope"
    if attributes.namespace:
        where = f"in the namespace {quote(attributes.namespace)}"
    text = f"{who} resource {quote(resource)} in API group {quote(attributes.group)} {where}"
    text = text.translate(_ESCAPED)
    why = f"{text}: {reason}" if reason else text
    return forbidden(attributes.resource, attributes.group, attributes.name, why)
