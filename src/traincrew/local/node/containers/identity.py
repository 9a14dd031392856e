"""The user that a container runs as. Pure."""

from __future__ import annotations

import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.local.images import Accounts, is_number

if TYPE_CHECKING:
    from traincrew.local.images.environment import Environment, ImageRoot
    from traincrew.local.node.machine.isolation import Isolation

__all__ = [
    "NON_ROOT",
    "Identity",
    "RootRefusedError",
    "accounts_of",
    "container_identity",
    "home_of",
    "passwd_with",
    "shadow_with",
]

_SHELL = "/bin/sh"
_NO_SHELLS = {"nologin", "false", "sync", "halt", "shutdown", ""}
"""Names of programs that system accounts have for a shell."""
_FIELDS = 7
"""Of a line of `/etc/passwd`."""

Document = Mapping[str, Any]


class Identity(NamedTuple):
    """User, group and supplementary groups; None for the node's own."""

    uid: int | None
    gid: int | None
    groups: list[int] | None


class RootRefusedError(Exception):
    """A container would run as root and must not."""


NON_ROOT = 65532
"""User and group of "nonroot" in the images of most operators (distroless)."""


def container_identity(
    pod: Document, container: Document, isolation: Isolation, image: Environment
) -> Identity:
    """Return the user of a container: by its `securityContext`, the pod's, the image, or the node.

    As root any user is possible. Otherwise a user namespace maps the node's user to the requested
    UID; where there are subordinate IDs, root of an image has others beside it, and further groups
    count. An environment is not an image: where its catalog names no user, `runAsNonRoot` alone
    gets one, because the images of programs that set it define one.

    Args:
        pod: The whole pod.
        container: Of its spec.
        isolation: The capabilities of the node.
        image: Of the container.

    Raises:
        RootRefusedError: `runAsNonRoot` is set and it would run as root. The messages are the
            kubelet's (`verifyRunAsNonRoot`).
        UnknownUserError: The image has no user or group of the name that it gives.
    """
    context: Document = (pod.get("spec") or {}).get("securityContext") or {}
    own: Document = container.get("securityContext") or {}

    def wanted(field: str) -> Any:
        value = own.get(field)
        return context.get(field) if value is None else value

    uid, gid = wanted("runAsUser"), wanted("runAsGroup")
    not_root = bool(wanted("runAsNonRoot"))
    if not_root and uid == 0:
        raise RootRefusedError(
            _refusal("container's runAsUser breaks non-root policy", pod, container)
        )
    added: list[int] = []
    if image.root is not None:
        if uid is None and not_root and not is_number(image.root.user):
            text = f"container has runAsNonRoot and image has non-numeric user ({image.root.user})"
            raise RootRefusedError(
                _refusal(f"{text}, cannot verify user is non-root", pod, container)
            )
        account = accounts_of(image.root).find(image.root.user if uid is None else str(uid))
        uid, gid = account.uid, account.gid if gid is None else gid
        added = list(account.groups)
    elif uid is None and image.user is not None:
        uid, gid = image.user.uid, image.user.gid if gid is None else gid
    elif uid is None and not_root and isolation.root:
        uid, gid = NON_ROOT, NON_ROOT if gid is None else gid
    changeable = isolation.root or isolation.namespaces
    effective = uid if uid is not None and changeable else isolation.uid
    if not_root and effective == 0:
        text = "container has runAsNonRoot and image will run as root"
        raise RootRefusedError(_refusal(text, pod, container))
    groups = added + [int(group) for group in context.get("supplementalGroups") or ()]
    if context.get("fsGroup") is not None:
        groups.append(int(context["fsGroup"]))
    if isolation.root:
        if uid is None and gid is None and not groups:
            return Identity(None, None, None)
        return Identity(uid, 0 if gid is None else gid, groups)
    if isolation.namespaces:
        own_group = isolation.gid if gid is None else gid
        return Identity(effective, own_group, None if image.root is None else groups)
    return Identity(None, None, None)


def accounts_of(root: ImageRoot) -> Accounts:
    """Return the users and groups of a container image."""
    return Accounts(root.passwd, root.group)


def _refusal(text: str, pod: Document, container: Document) -> str:
    metadata: Document = pod.get("metadata") or {}
    name, namespace, uid = (metadata.get(key, "") for key in ("name", "namespace", "uid"))
    return f'{text} (pod: "{name}_{namespace}({uid})", container: {container.get("name", "")})'


def home_of(uid: int) -> str:
    """Return the value of `HOME`: the user's home directory on this machine, or `/`."""
    try:
        home = pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"
    return home if Path(home).is_dir() else "/"


def passwd_with(uid: int, gid: int, passwd: str) -> str | None:
    """Return the text of `/etc/passwd` with an entry that a user can log in with.

    Runtimes such as CRI-O add one that is missing, because programs such as ssh and Python's
    `getpass` refuse users without one. Of an account that is not made for commands, such as nobody,
    the shell and a home directory that does not exist are replaced: sshd starts commands by that
    shell in that directory.

    Args:
        uid: The user of the container.
        gid: Its group.
        passwd: The machine's file.

    Returns:
        None if the file has such an entry.
    """
    lines = passwd.splitlines()
    for number, line in enumerate(lines):
        fields = line.split(":")
        if fields[2:3] != [str(uid)] or len(fields) != _FIELDS:
            continue
        *_, home, shell = fields
        if Path(home).is_dir() and Path(shell).name not in _NO_SHELLS:
            return None
        fields[-2] = home if Path(home).is_dir() else home_of(uid)
        fields[-1] = _SHELL if Path(shell).name in _NO_SHELLS else shell
        lines[number] = ":".join(fields)
        return "".join(f"{each}\n" for each in lines)
    try:
        # From a directory service, which the container does not reach.
        name, home = pwd.getpwuid(uid).pw_name, home_of(uid)
    except KeyError:
        name, home = "pod", "/"
    separator = "" if not passwd or passwd.endswith("\n") else "\n"
    return f"{passwd}{separator}{name}:x:{uid}:{gid}::{home}:{_SHELL}\n"


def shadow_with(uid: int, passwd: str, shadow: str) -> str:
    """Return the text of an image's `/etc/shadow` with an entry for a user, without a password.

    Where the file has none, the machine's name service may have: systemd's has one of nobody by
    which the account is locked, so that sshd refuses it.

    Args:
        uid: The user of the container.
        passwd: The container's `/etc/passwd`.
        shadow: The image's file.
    """
    fields = (line.split(":") for line in passwd.splitlines())
    name = next((found[0] for found in fields if found[2:3] == [str(uid)]), None)
    if name is None or any(line.startswith(f"{name}:") for line in shadow.splitlines()):
        return shadow
    separator = "" if not shadow or shadow.endswith("\n") else "\n"
    return f"{shadow}{separator}{name}:*:::::::\n"
