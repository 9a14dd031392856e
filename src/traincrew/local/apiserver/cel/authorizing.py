"""The variable ``authorizer`` of admission policies: what may the user who sends a request do?

Functions: ``k8s.io/apiserver/pkg/cel/library/authz.go``. Selectors are accepted and have no effect:
no authorizer here looks at them, nor does RBAC upstream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from .operators import CelError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AUTHORIZING", "Access", "Decision"]


class Decision(Struct, frozen=True):
    """The answer to a check."""

    allowed: bool
    reason: str = ""


class Access(Struct, frozen=True):
    """What is asked for so far.

    Attributes:
        ask: answers; gets this with a verb.
        account: namespace and name of a service account that is asked about instead of the user.
        path: of a request that is about no resource.
    """

    ask: Callable[[Access], Decision]
    account: tuple[str, str] | None = None
    verb: str = ""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


def _path(access: Access, path: str) -> Access:
    if not path:
        raise CelError("path must not be empty")
    return replace(access, path=path)


def _check(access: Access, verb: str) -> Decision:
    asked = replace(access, verb=verb)
    return asked.ask(asked)


AUTHORIZING: dict[str, Callable[..., object]] = {
    "path": _path,
    "serviceAccount": lambda access, space, name: replace(access, account=(space, name)),
    "group": lambda access, group: replace(access, group=group),
    "resource": lambda access, resource: replace(access, resource=resource),
    "subresource": lambda access, part: replace(access, subresource=part),
    "namespace": lambda access, namespace: replace(access, namespace=namespace),
    "name": lambda access, name: replace(access, name=name),
    "fieldSelector": lambda access, _: access,
    "labelSelector": lambda access, _: access,
    "check": _check,
    "errored": lambda _: False,
    "error": lambda _: "",
    "allowed": lambda decision: decision.allowed,
    "reason": lambda decision: decision.reason,
}
