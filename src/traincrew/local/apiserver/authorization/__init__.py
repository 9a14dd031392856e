"""Authorization: what a user may do, by Roles and bindings (RBAC).

`rules` decides whether a rule permits an action; `policies` holds the stored Roles and bindings,
by subject; `authorizer` answers for a user; `attributes` describes the action of a request;
`escalation` keeps users from granting what they do not have; `bootstrap` has the roles that every
cluster has. Rules and messages: ``plugin/pkg/auth/authorizer/rbac`` and ``pkg/registry/rbac`` of
Kubernetes.
"""

from .attributes import Attributes, request_attributes
from .authorizer import Authorizer, Decision, is_master
from .escalation import UserRights
from .policies import Policies

__all__ = [
    "Attributes",
    "Authorizer",
    "Decision",
    "Policies",
    "UserRights",
    "is_master",
    "request_attributes",
]
