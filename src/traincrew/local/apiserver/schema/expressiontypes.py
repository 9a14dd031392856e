"""The types that CEL expressions see in objects of a kind, for checks before there is any object.

As upstream's ``SchemaDeclType`` (``k8s.io/apiserver/pkg/cel/common/schemas.go``); places where any
value is allowed have any type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.cel.celtypes import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    escape,
)

if TYPE_CHECKING:
    from .node import SchemaNode

__all__ = ["ANY_TYPE", "expression_type"]

ANY_TYPE = DYN
"""The type of values of any type."""

_SCALARS = {"boolean": BOOL, "integer": INT, "number": DOUBLE, "string": STRING}
_FORMATS = {"byte": BYTES, "date": TIMESTAMP, "date-time": TIMESTAMP, "duration": DURATION}


class _Fields:
    """The fields of an object; their types are made when they are asked for: kinds are large."""

    def __init__(self, node: SchemaNode) -> None:
        self._node = node

    def field_type(self, name: str) -> Type | None:
        """Return the type of a field by its escaped name; None if there is none."""
        for key, child in self._node.fields.items():
            if escape(key) == name:
                return expression_type(child)
        return None


def expression_type(node: SchemaNode) -> Type:
    """Return the type of the values at a place."""
    if node.type == "string":
        return _FORMATS.get((node.rules or {}).get("format", ""), STRING)
    if node.type in _SCALARS:
        return _SCALARS[node.type]
    if node.type == "array" and node.items is not None:
        return Type("list", (expression_type(node.items),))
    if node.type != "object" or node.preserve or (node.values is None and not node.fields):
        return DYN
    if node.values is not None and not node.fields:
        return Type("map", (STRING, expression_type(node.values)))
    return Type("object", fields=_Fields(node))
