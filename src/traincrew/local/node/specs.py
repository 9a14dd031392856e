"""What a virtual node is made of."""

from __future__ import annotations

from msgspec import Struct, field

__all__ = ["NodeSpec"]


class NodeSpec(Struct, frozen=True):
    """One virtual node over this machine.

    Attributes:
        name: of the Node object.
        cpu: processors it offers, as a quantity; None for all of the machine's.
        memory: bytes it offers, as a quantity; None for all of the machine's.
        gpus: NVIDIA GPUs it offers. Virtual nodes get consecutive devices, in their order.
        labels: further labels of the Node object.
    """

    name: str
    cpu: str | None = None
    memory: str | None = None
    gpus: int = 0
    labels: dict[str, str] = field(default_factory=dict)
