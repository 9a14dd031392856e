"""Static defaults that kinds share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["default_phase"]


def default_phase(obj: Document, phase: str) -> None:
    """Fill in the phase of a new object, in place."""
    status = obj.setdefault("status", {})
    if type(status) is dict and not status.get("phase"):
        status["phase"] = phase
