"""Semantic rules of the built-in kinds, beyond their schemas."""

from __future__ import annotations

from typing import Any

from .causes import Cause

__all__ = ["validate"]

Document = dict[str, Any]


def validate(group: str, kind: str, obj: Document, old: Document | None = None) -> list[Cause]:
    """Everything wrong with an object.

    Args:
        group: API group, empty for the core group.
        kind: of the object.
        obj: the object, defaulted and valid by its schema.
        old: the stored object when this is an update.
    """
    return []
