"""Checks of custom resources beyond the types of their schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .causes import Cause
    from .schema import ObjectSchema

__all__ = ["validate"]

Document = dict[str, Any]


def validate(schema: ObjectSchema, obj: Document, old: Document | None, found: list[Cause]) -> None:
    """Append what CEL rules and the rules for metadata find; then drop what was so before."""
    rules = schema.cel_rules
    if rules and not found:
        found.extend(rules.validate(obj, old))
