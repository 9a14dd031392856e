"""Requests on behalf of another user: the headers ``Impersonate-User``, ``-Group`` and others.

Rules: ``pkg/endpoints/filters/impersonation`` of Kubernetes' API server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from traincrew.local.apiserver.authorization import Attributes
from traincrew.local.apiserver.values.errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multidict import CIMultiDictProxy

    from traincrew.local.apiserver.authorization import Authorizer
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["asks_for_another_user", "impersonated"]

_USER, _GROUP, _UID = "Impersonate-User", "Impersonate-Group", "Impersonate-Uid"
_EXTRA = "impersonate-extra-"
_ACCOUNT = "system:serviceaccount:"
_AUTHENTICATED, _UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
_ANONYMOUS = "system:anonymous"
_AUTHENTICATION = "authentication.k8s.io"


class _Wanted(NamedTuple):
    username: str
    groups: list[str]
    uid: str
    extra: dict[str, list[str]]

    def actions(self) -> Iterator[Attributes]:
        """Yield the actions that the sender has to be allowed."""
        if account := _account(self.username):
            namespace, name = account
            yield Attributes("impersonate", "", "serviceaccounts", "", namespace, name)
        else:
            yield Attributes("impersonate", "", "users", name=self.username)
        for group in self.groups:
            yield Attributes("impersonate", "", "groups", name=group)
        for key, values in self.extra.items():
            for value in values:
                yield Attributes("impersonate", _AUTHENTICATION, "userextras", key, name=value)
        if self.uid:
            yield Attributes("impersonate", _AUTHENTICATION, "uids", name=self.uid)


def asks_for_another_user(headers: CIMultiDictProxy[str]) -> bool:
    """Return whether a request of the administrator is to be one of somebody else."""
    return _USER in headers or _GROUP in headers


def impersonated(
    headers: CIMultiDictProxy[str], user: Document, authorizer: Authorizer
) -> Document | None:
    """Return the user whom a request wants to be; None without such headers.

    Args:
        headers: the headers of the request.
        user: who sent it.
        authorizer: decides whether the sender may.

    Raises:
        StatusError: 400 without a user, 403 if the sender may not.
    """
    extra: dict[str, list[str]] = {}
    for name, value in headers.items():
        if name[:18].lower() == _EXTRA:
            extra.setdefault(unquote(name[18:].lower()), []).append(value)
    wanted = _Wanted(
        headers.get(_USER, ""), headers.getall(_GROUP, []), headers.get(_UID, ""), extra
    )
    if not wanted.username:
        if wanted.groups or wanted.uid or extra:
            raise bad_request("requested groups, extra or uid without impersonating a user")
        return None
    for action in wanted.actions():
        authorizer.require(user, action)
    found: Document = {"username": wanted.username}
    if wanted.uid:
        found["uid"] = wanted.uid
    found["groups"] = _groups(wanted)
    if extra:
        found["extra"] = extra
    return found


def _groups(wanted: _Wanted) -> list[str]:
    groups = list(wanted.groups)
    if not groups and (account := _account(wanted.username)):
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{account[0]}"]
    if wanted.username == _ANONYMOUS:
        implied = "" if _UNAUTHENTICATED in groups else _UNAUTHENTICATED
    else:
        known = _AUTHENTICATED in groups or _UNAUTHENTICATED in groups
        implied = "" if known else _AUTHENTICATED
    return [*groups, implied] if implied else groups


def _account(username: str) -> tuple[str, str] | None:
    """Return namespace and name of the ServiceAccount that a user name stands for."""
    if not username.startswith(_ACCOUNT):
        return None
    namespace, _, name = username[len(_ACCOUNT) :].partition(":")
    return (namespace, name) if namespace and name and ":" not in name else None
