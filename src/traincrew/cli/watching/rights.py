"""Messages for requests that a cluster refuses: which right is missing, and how to check it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.cli.display.text import plain
from traincrew.cli.errors import CommandFailed
from traincrew.engine.errors import ForbiddenError, UnauthorizedError, UnreachableError

if TYPE_CHECKING:
    from traincrew.engine.errors import ApiError
    from traincrew.engine.resources import Resource

__all__ = ["credentials_refused", "missing_right", "refused"]


def missing_right(
    verb: str, resource: Resource, namespace: str | None, subresource: str = ""
) -> str:
    """Return which right is missing, and the command that checks it.

    Args:
        verb: The verb, in the words of RBAC.
        resource: The resource.
        namespace: The namespace; None for all of them.
        subresource: A subresource, such as ``log``.
    """
    name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    full = f"{name}/{subresource}" if subresource else name
    where, option = "", ""
    if resource.namespaced:
        where = f" in namespace {namespace}" if namespace else " in all namespaces"
        option = f" -n {namespace}" if namespace else " -A"
    part = f" --subresource={subresource}" if subresource else ""
    check = f"kubectl auth can-i {verb} {name}{part}{option}"
    return plain(f"the right to {verb} {full}{where} is missing; to check: {check}")


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
        return CommandFailed(
            f"{missing_right(verb, resource, namespace, subresource)}\n"
            f"  the cluster says: {plain(error.message)}"
        )
    if isinstance(error, UnauthorizedError):
        return credentials_refused(error)
    if isinstance(error, UnreachableError):
        return CommandFailed(
            f"the cluster does not answer: {plain(error.message)}; to check: kubectl version"
        )
    return CommandFailed(f"cannot {verb} {resource.plural}: {plain(str(error))}")
