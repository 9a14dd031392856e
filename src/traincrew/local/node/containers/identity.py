"""The user that a container runs as. Pure."""

from __future__ import annotations

import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from traincrew.local.images.environment import ImageUser
    from traincrew.local.node.machine.isolation import Isolation

__all__ = [
    "NON_ROOT",
    "Identity",
    "RootRefusedError",
    "container_identity",
    "home_of",
    "passwd_with",
]

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
    pod: Document, container: Document, isolation: Isolation, image: ImageUser | None = None
) -> Identity:
    """Return the user of a container: by its `securityContext`, the pod's, the image, or the node.

    As root any user is possible. Otherwise a user namespace maps the node's user to the requested
    UID. An environment is not an image: where its catalog names no user, `runAsNonRoot` alone gets
    one, because the images of programs that set it define one.

    Args:
        pod: The whole pod.
        container: Of its spec.
        isolation: The capabilities of the node.
        image: The user of the container's image.

    Raises:
        RootRefusedError: `runAsNonRoot` is set and it would run as root. The messages are the
            kubelet's (`verifyRunAsNonRoot`).
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
    if uid is None and image is not None:
        uid, gid = image.uid, image.gid if gid is None else gid
    elif uid is None and not_root and isolation.root:
        uid, gid = NON_ROOT, NON_ROOT if gid is None else gid
    changeable = isolation.root or isolation.namespaces
    effective = uid if uid is not None and changeable else isolation.uid
    if not_root and effective == 0:
        text = "container has runAsNonRoot and image will run as root"
        raise RootRefusedError(_refusal(text, pod, container))
    if isolation.root:
        groups = [int(group) for group in context.get("supplementalGroups") or ()]
        if context.get("fsGroup") is not None:
            groups.append(int(context["fsGroup"]))
        if uid is None and gid is None and not groups:
            return Identity(None, None, None)
        return Identity(uid, 0 if gid is None else gid, groups)
    if isolation.namespaces:
        own_group = isolation.gid if gid is None else gid
        return Identity(effective, own_group, None)
    return Identity(None, None, None)


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
    """Return the text of `/etc/passwd` with an entry for a user that it lacks; otherwise None.

    Runtimes such as CRI-O add it, because programs such as ssh and Python's `getpass` refuse users
    without one.

    Args:
        uid: The user of the container.
        gid: Its group.
        passwd: The machine's file.
    """
    if any(line.split(":")[2:3] == [str(uid)] for line in passwd.splitlines()):
        return None
    try:
        # From a directory service, which the container does not reach.
        name, home = pwd.getpwuid(uid).pw_name, home_of(uid)
    except KeyError:
        name, home = "pod", "/"
    separator = "" if not passwd or passwd.endswith("\n") else "\n"
    return f"{passwd}{separator}{name}:x:{uid}:{gid}::{home}:/bin/sh\n"
