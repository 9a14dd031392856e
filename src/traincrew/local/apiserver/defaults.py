"""Static defaults of the built-in kinds."""

from __future__ import annotations

from typing import Any

__all__ = ["after_uid", "apply"]

Document = dict[str, Any]


def apply(group: str, kind: str, obj: Document) -> None:
    """Fill in what upstream fills in when an object is decoded, in place."""


def after_uid(group: str, kind: str, obj: Document) -> None:
    """Fill in what needs the uid: the generated selector of a Job, in place."""
