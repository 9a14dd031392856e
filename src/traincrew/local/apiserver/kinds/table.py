"""Tables as ``kubectl get`` prints them: column definitions and cells.

Columns with priority 1 are shown with ``-o wide`` only. Columns and formats: upstream's
``pkg/printers/internalversion/printers.go`` and apiextensions' ``tableconvertor.go``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values.durations import age
from traincrew.local.apiserver.values.jsonpath import compile_path, text

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

    from .strategy import ResourceType

__all__ = ["columns", "row"]


_AGE_COLUMN = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def _definition(name: str, kind: str, priority: int, description: str = "") -> Document:
    return {
        "name": name,
        "type": kind,
        "format": "name" if name == "Name" else "",
        "description": description,
        "priority": priority,
    }


@cache
def _builtin_columns(names: str) -> list[Document]:
    result = []
    for word in names.split():
        name, _, column_type = word.rstrip("*").partition(":")
        wide = int(word.endswith("*"))
        result.append(_definition(name.replace("_", " "), column_type or "string", wide))
    return result


def columns(resource: ResourceType) -> list[Document]:
    """Return the column definitions of a resource."""
    if resource.custom is None:
        return _builtin_columns(resource.strategy.columns)
    result = [_definition("Name", "string", 0)]
    for column in resource.custom.get("additionalPrinterColumns") or [_AGE_COLUMN]:
        entry = _definition(
            column["name"],
            column["type"],
            column.get("priority", 0),
            column.get("description", ""),
        )
        entry["format"] = column.get("format", "")
        result.append(entry)
    return result


def row(resource: ResourceType, obj: Document, now: float) -> list[Any]:
    """Return the cells of one object, one per column.

    Args:
        resource: resource of the object.
        obj: the object.
        now: seconds since the epoch, for ages.
    """
    if resource.custom is None:
        return resource.strategy.row(obj, now)
    cells: list[Any] = [obj["metadata"]["name"]]
    for column in resource.custom.get("additionalPrinterColumns") or [_AGE_COLUMN]:
        value = compile_path(column["jsonPath"]).first(obj)
        cells.append(_cell(column["type"], value, now))
    return cells


def _cell(kind: str, value: Any, now: float) -> Any:
    """Convert a value to the type of its column; null when it has another type."""
    if value is None:
        return None
    if kind == "string":
        return text(value)
    number = type(value) is int or type(value) is float
    if kind == "integer":
        return int(value) if number else None
    if kind == "number":
        return float(value) if number else None
    if kind == "boolean":
        return value if type(value) is bool else None
    if kind == "date" and type(value) is str:
        shown = age(value, now)
        return "<invalid>" if shown == "<unknown>" else shown
    return None
