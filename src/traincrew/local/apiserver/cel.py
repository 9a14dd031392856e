"""CEL rules of custom resources (``x-kubernetes-validations``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .causes import Cause

__all__ = ["CelRules", "compile_rules"]

Document = dict[str, Any]


class CelRules:
    """The compiled rules of one schema.

    Attributes:
        faults: rules that cannot be compiled; causes for the definition that has them.
    """

    def __init__(self) -> None:
        self.faults: list[Cause] = []

    def __bool__(self) -> bool:
        return False

    def validate(self, obj: Document, old: Document | None = None) -> list[Cause]:
        """What the rules find wrong with an object."""
        return []


def compile_rules(open_api_v3_schema: Document) -> CelRules:
    """Compile every rule of a schema."""
    return CelRules()
