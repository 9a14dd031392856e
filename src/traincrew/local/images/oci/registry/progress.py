"""How far a pull is, as values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

__all__ = ["Progress", "Report", "Transfer"]

Phase = Literal["waiting", "fetching", "unpacking", "done"]


class Transfer(Struct, frozen=True):
    """How far one layer is.

    Attributes:
        digest: Of its blob.
        phase: ``waiting`` for other pulls or its turn; ``done`` also if it was stored already.
        done: Bytes of the blob that were fetched, or read for unpacking.
        total: Its size in bytes.
    """

    digest: str
    phase: Phase
    done: int
    total: int


class Progress(Struct, frozen=True):
    """How far a pull is; reported after every change.

    Attributes:
        layers: All layers of the image, lowest first, each once.
        changed: The layer that this report is about; None for the first report.
    """

    layers: tuple[Transfer, ...]
    changed: Transfer | None = None

    @property
    def total(self) -> int:
        """Bytes of all layers."""
        return sum(layer.total for layer in self.layers)

    @property
    def finished(self) -> int:
        """How many layers are unpacked."""
        return sum(layer.phase == "done" for layer in self.layers)

    @property
    def fetched(self) -> int:
        """Bytes of all layers that are here."""
        return sum(
            layer.total if layer.phase in {"unpacking", "done"} else layer.done
            for layer in self.layers
        )


Report = Callable[[Progress], None]
