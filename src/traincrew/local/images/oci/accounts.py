"""Users and groups of an image, by number. Pure.

Rules: containerd's `WithUser`, `WithUserID` and `WithAdditionalGIDs`, and `HOME` as runc sets it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Account", "Accounts", "UnknownUserError", "is_number"]

_LARGEST_ID = 2**32 - 2
_PASSWD_FIELDS, _GROUP_FIELDS = 7, 4


class UnknownUserError(ValueError):
    """The image has no such user or group; the message names it."""


class Account(Struct, frozen=True):
    """A user of an image.

    Attributes:
        uid: its UID.
        gid: its group.
        groups: further groups that its name is in.
        home: its home directory; `/` where the image names none.
    """

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    home: str = "/"


class Accounts:
    """The accounts of an image.

    Args:
        passwd: text of its `/etc/passwd`; empty if there is none.
        group: text of its `/etc/group`; empty if there is none.
    """

    def __init__(self, passwd: str, group: str) -> None:
        self._users = list(_users(passwd))
        self._groups = list(_groups(group))

    def find(self, user: str) -> Account:
        """Return a user as an image or a runtime names it: `USER` or `USER:GROUP`.

        Args:
            user: names or numbers; empty for root.

        Raises:
            UnknownUserError: a name is not in the image, or a number is too large.
        """
        wanted, _, group = user.partition(":")
        name, account = self._user(wanted or "0")
        if group:
            account = Account(account.uid, self._gid(group), account.groups, account.home)
        groups = tuple(gid for _, gid, members in self._groups if name and name in members)
        return Account(account.uid, account.gid, groups, account.home)

    def _user(self, wanted: str) -> tuple[str, Account]:
        for name, account in self._users:
            if name == wanted or str(account.uid) == wanted:
                return name, account
        if (number := _number(wanted)) is None:
            raise UnknownUserError(f"unable to find user {wanted}: the image has no such user")
        return "", Account(number, 0)

    def _gid(self, wanted: str) -> int:
        for name, gid, _ in self._groups:
            if name == wanted:
                return gid
        if (number := _number(wanted)) is None:
            raise UnknownUserError(f"unable to find group {wanted}: the image has no such group")
        return number


def is_number(user: str) -> bool:
    """Return whether the user of an image is a number, so that it is known not to be root."""
    return _number(user.partition(":")[0] or "0") is not None


def _number(text: str) -> int | None:
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(_LARGEST_ID)):
        return None
    return number if (number := int(text)) <= _LARGEST_ID else None


def _users(passwd: str) -> Iterator[tuple[str, Account]]:
    for line in passwd.splitlines():
        fields = line.split(":")
        if len(fields) < _PASSWD_FIELDS:
            continue
        uid, gid = _number(fields[2]), _number(fields[3])
        if fields[0] and uid is not None and gid is not None:
            yield fields[0], Account(uid, gid, (), fields[5] or "/")


def _groups(group: str) -> Iterator[tuple[str, int, list[str]]]:
    """Yield the name, number and members of each group."""
    for line in group.splitlines():
        fields = line.split(":")
        if len(fields) >= _GROUP_FIELDS and (gid := _number(fields[2])) is not None:
            yield fields[0], gid, fields[3].split(",")
