"""What pods use of processors and memory, as the node measures it."""

from __future__ import annotations

from msgspec import Struct, field

__all__ = ["ContainerUsage", "NodeUsage", "PodUsage", "Usage"]


class ContainerUsage(Struct, frozen=True):
    """What a container uses.

    Attributes:
        cpu: processors, on average over the window.
        memory: bytes of the working set, at the end of the window.
    """

    cpu: float
    memory: int


class PodUsage(Struct, frozen=True):
    """What the running containers of a pod use, by name.

    Attributes:
        window: seconds over which processors were measured.
    """

    window: float
    containers: dict[str, ContainerUsage]


class NodeUsage(Struct, frozen=True):
    """The sum of all containers of a virtual node; the window is in seconds."""

    window: float
    cpu: float
    memory: int


class Usage(Struct, frozen=True):
    """One measurement.

    Attributes:
        at: when it ended, in seconds since the epoch.
        window: seconds of a node's window.
        pods: by UID; only those whose running containers were all measured.
        nodes: by name; only those that run containers.
    """

    at: float
    window: float
    pods: dict[str, PodUsage] = field(default_factory=dict)
    nodes: dict[str, NodeUsage] = field(default_factory=dict)
