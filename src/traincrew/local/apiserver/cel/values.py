"""Conversion of documents to what CEL expressions see: escaped names, times, doubles, sets.

A declared field that is null is absent (``apiserver/pkg/cel/common/valuesunstructured.go``,
``unstructuredMap.Find``).
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Any

from .celtypes import escape
from .conversions import parse_duration
from .keyedlists import KeyedList, is_keyed, keys_of
from .operators import CostExceededError

__all__ = ["convert", "needs_conversion"]

Schema = dict[str, Any]

_NULL_FIELD = "\0"
"""Keys that no expression can name: null fields count in the size of an object, for ``==``."""

_CONVERTED_FORMATS = ("byte", "date", "date-time", "duration")


def needs_conversion(schema: Any, known: dict[int, bool]) -> bool:
    """Return whether values need `convert`: escaped names, times, doubles, sets, null fields.

    Args:
        schema: of the values.
        known: results by the identity of the schema, which this extends.
    """
    result = known.get(id(schema))
    if result is None:
        result = known[id(schema)] = _needs_conversion(schema, known)
    return result


def _needs_conversion(schema: Any, known: dict[int, bool]) -> bool:
    if type(schema) is not dict:
        return False
    if schema.get("type") == "number" or (
        schema.get("type") == "string" and schema.get("format") in _CONVERTED_FORMATS
    ):
        return True
    if is_keyed(schema):
        return True
    properties = schema.get("properties") or {}
    if any(escape(key) != key or _may_be_null(each) for key, each in properties.items()):
        return True
    inner = [*properties.values(), schema.get("items"), schema.get("additionalProperties")]
    return any(needs_conversion(each, known) for each in inner)


def _may_be_null(schema: Any) -> bool:
    """Return whether null is valid; an integer or string has no type that would refuse it."""
    return type(schema) is dict and bool(
        schema.get("nullable") or schema.get("x-kubernetes-int-or-string")
    )


def convert(schema: Any, value: Any, frame: list[Any]) -> Any:
    """Convert a value to what expressions see: escaped names, timestamps, doubles, keyed lists.

    Without a call for each value: a call in a frame at the end of a piece of Python's stack costs
    twenty times as much, and where that end is depends on who converts.

    Args:
        schema: of the value.
        value: any JSON value.
        frame: has what the conversion may cost, one for each value.

    Raises:
        CostExceededError: it costs more.
    """
    found: list[Any] = [None]
    left: list[tuple[Any, Any, Any, Any]] = [(schema, value, found, 0)]
    while left:
        schema, value, into, place = left.pop()
        frame[0] -= 1
        if frame[0] < 0:
            raise CostExceededError
        kind = type(value)
        if type(schema) is not dict:
            into[place] = value
        elif kind is dict:
            properties = schema.get("properties") or {}
            extra = schema.get("additionalProperties")
            fields: dict[str, Any] = {}
            into[place] = fields
            nulls = 0
            for key, item in value.items():
                if key not in properties:
                    fields[key] = None  # in the order of the object
                    left.append((extra, item, fields, key))
                elif item is None:
                    nulls += 1
                    fields[f"{_NULL_FIELD}{nulls}"] = None
                elif (name := escape(key)) is not None:
                    fields[name] = None
                    left.append((properties[key], item, fields, name))
        elif kind is list:
            items: list[Any] = [None] * len(value)
            if is_keyed(schema):
                items = KeyedList(items, value, keys_of(schema))
            into[place] = items
            inner = schema.get("items")
            left.extend([(inner, item, items, index) for index, item in enumerate(value)])
        elif kind is int and schema.get("type") == "number":
            into[place] = float(value)
        elif kind is str and schema.get("type") == "string":
            into[place] = _convert_text(schema.get("format"), value)
        else:
            into[place] = value
    return found[0]


def _convert_text(form: Any, value: str) -> Any:
    if form == "date-time":
        return datetime.fromisoformat(value.replace("z", "Z"))
    if form == "date":
        return datetime.combine(date.fromisoformat(value), time(), UTC)
    if form == "byte":
        import base64

        return base64.b64decode(value)
    if form == "duration":
        return parse_duration(value)
    return value
