"""The capabilities of the node that concern users and isolation of containers."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Isolation"]


class Isolation(Struct, frozen=True):
    """The capabilities of the node that concern users and isolation of containers.

    Attributes:
        namespaces: pods have their own file system, processes and host name.
        root: the node runs as root, so a container may run as any user.
        uid: UID of the node; `gid` is its GID.
        memory: memory limits are enforced.
        shared_ports: why pods listen on the machine's ports; empty where each has its own.
    """

    namespaces: bool = True
    root: bool = False
    uid: int = 0
    gid: int = 0
    memory: bool = True
    shared_ports: str = ""
