"""Messages for requests that a cluster refuses: which right is missing, and how to check it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from traincrew.cli.display.text import plain
from traincrew.cli.errors import CommandFailed
from traincrew.engine.errors import ForbiddenError, UnauthorizedError, UnreachableError

if TYPE_CHECKING:
    from traincrew.engine.errors import ApiError
    from traincrew.engine.resources import Resource

__all__ = ["RightMissing", "credentials_refused", "missing_right", "no_answer", "refused"]

_USER = re.compile(r'User "([^"]{1,300})" cannot ')


class RightMissing(CommandFailed):
    """A request was refused because the user lacks a right."""


def missing_right(
    verb: str,
    resource: Resource,
    namespace: str | None,
    subresource: str = "",
    *,
    error: ApiError | None = None,
) -> str:
    """Return which right is missing, for whom, and the command that checks it.

    Args:
        verb: The verb, in the words of RBAC.
        resource: The resource.
        namespace: The namespace; None for all of them.
        subresource: A subresource, such as ``log``.
        error: The answer of the cluster, which names the user.
    """
    name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    full = f"{name}/{subresource}" if subresource else name
    where, option = "", ""
    if resource.namespaced:
        where = f" in namespace {namespace}" if namespace else " in all namespaces"
        option = f" -n {namespace}" if namespace else " -A"
    part = f" --subresource={subresource}" if subresource else ""
    check = f"kubectl auth can-i {verb} {name}{part}{option}"
    user = _USER.search(error.message) if error is not None else None
    whose = f" for {user[1]}" if user else ""
    return plain(f"the right to {verb} {full}{where} is missing{whose}; to check: {check}")


def credentials_refused(error: UnauthorizedError) -> CommandFailed:
    """Return the error of a command whose credentials are not accepted."""
    return CommandFailed(
        "the cluster does not accept the credentials of the kubeconfig "
        f"({plain(error.message)}); sign in again, or choose another --context"
    )


def refused(
    error: ApiError,
    verb: str,
    resource: Resource,
    namespace: str | None,
    subresource: str = "",
) -> CommandFailed:
    """Return the error of a command whose request failed."""
    if isinstance(error, ForbiddenError):
        return RightMissing(
            f"{missing_right(verb, resource, namespace, subresource, error=error)}\n"
            f"  the cluster says: {plain(error.message)}"
        )
    return no_answer(error) or CommandFailed(
        f"cannot {verb} {resource.plural}: {plain(str(error))}"
    )


def no_answer(error: ApiError) -> CommandFailed | None:
    """Return the error of a command if no request can succeed; None if another one might."""
    if isinstance(error, UnauthorizedError):
        return credentials_refused(error)
    if isinstance(error, UnreachableError):
        return CommandFailed(
            f"the cluster does not answer: {plain(error.message)}; to check: kubectl version"
        )
    return None
