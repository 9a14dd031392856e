"""Which user a container runs as. Pure."""

from __future__ import annotations

import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from traincrew.local.node.unsupported import Isolation

__all__ = ["Identity", "RootRefusedError", "container_identity", "home_of"]

Document = Mapping[str, Any]


class Identity(NamedTuple):
    """User, group and supplementary groups; None for the node's own."""

    uid: int | None
    gid: int | None
    groups: list[int] | None


class RootRefusedError(Exception):
    """A container that must not run as root would."""


def container_identity(spec: Document, container: Document, isolation: Isolation) -> Identity:
    """Who a container runs as: its own `securityContext` wins over the pod's.

    As root any user is possible. Otherwise a user namespace shows the one user there is under the
    number the pod asks for.

    Raises:
        RootRefusedError: `runAsNonRoot`, and it would run as root.
    """
    pod: Document = spec.get("securityContext") or {}
    own: Document = container.get("securityContext") or {}

    def wanted(field: str) -> Any:
        value = own.get(field)
        return pod.get(field) if value is None else value

    uid, gid = wanted("runAsUser"), wanted("runAsGroup")
    changeable = isolation.root or isolation.namespaces
    effective = uid if uid is not None and changeable else isolation.uid
    if wanted("runAsNonRoot") and effective == 0:
        raise RootRefusedError(
            f"container has runAsNonRoot and would run as root (container: "
            f"{container.get('name', '')}): set securityContext.runAsUser"
        )
    if isolation.root:
        groups = [int(group) for group in pod.get("supplementalGroups") or ()]
        if pod.get("fsGroup") is not None:
            groups.append(int(pod["fsGroup"]))
        if uid is None and gid is None and not groups:
            return Identity(None, None, None)
        return Identity(uid, 0 if gid is None else gid, groups)
    if isolation.namespaces:
        own_group = isolation.gid if gid is None else gid
        return Identity(effective, own_group, None)
    return Identity(None, None, None)


def home_of(uid: int) -> str:
    """A home directory for `HOME`: the user's on this machine, or `/`."""
    try:
        home = pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"
    return home if Path(home).is_dir() else "/"
