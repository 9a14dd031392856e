"""The CEL interpreter, and the conversion of documents to CEL values."""

from __future__ import annotations

import importlib.util
import logging
from datetime import UTC, date, datetime, time
from functools import cache
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from .source import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["convert", "interpreter", "needs_conversion", "open_names", "sample"]

Schema = dict[str, Any]


@cache
def interpreter() -> Any:
    """Import the extension module of the CEL package.

    The package itself imports its command line tool, which takes half a second; the extension
    module does not need it.
    """
    package = importlib.util.find_spec("cel")
    places = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("cel", list(places or ()))
    if spec is None or spec.loader is None:
        raise ImportError("the package common-expression-language is not installed completely")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # A function that refuses its arguments is an expected result here, not worth a log line.
    logging.getLogger("cel").addHandler(logging.NullHandler())
    logging.getLogger("cel").propagate = False
    return module


_SAMPLES = {"integer": 1, "number": 1.0, "boolean": True}
_FORMAT_SAMPLES = {"date-time": "2020-01-01T00:00:00Z", "date": "2020-01-01", "duration": "1s"}


def sample(schema: Schema) -> Any:
    """Return a sample value with every field of a schema."""
    kind = schema.get("type")
    if kind == "object":
        extra = schema.get("additionalProperties")
        if type(extra) is dict:
            return {"a": sample(extra)}
        return {key: sample(item) for key, item in (schema.get("properties") or {}).items()}
    if kind == "array":
        return [sample(schema["items"])]
    if kind == "string":
        return (schema.get("enum") or [_FORMAT_SAMPLES.get(schema.get("format", ""), "a")])[0]
    return _SAMPLES.get(kind or "")


_CONVERTED_FORMATS = ("byte", "date", "date-time", "duration")


def needs_conversion(schema: Any) -> bool:
    """Return whether values need `convert`: escaped names, times, doubles."""
    if type(schema) is not dict:
        return False
    if schema.get("type") == "number" or (
        schema.get("type") == "string" and schema.get("format") in _CONVERTED_FORMATS
    ):
        return True
    properties = schema.get("properties") or {}
    if any(escape(key) != key for key in properties):
        return True
    inner = [*properties.values(), schema.get("items"), schema.get("additionalProperties")]
    return any(map(needs_conversion, inner))


def convert(schema: Any, value: Any) -> Any:
    """Convert a value to what expressions see: escaped names, CEL timestamps and doubles."""
    if type(schema) is not dict:
        return value
    kind = type(value)
    if kind is dict:
        properties = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        result = {}
        for key, item in value.items():
            if key in properties:
                name = escape(key)
                if name is not None:
                    result[name] = convert(properties[key], item)
            else:
                result[key] = convert(extra, item)
        return result
    if kind is list:
        return [convert(schema.get("items"), item) for item in value]
    if kind is int and schema.get("type") == "number":
        return float(value)
    if kind is str and schema.get("type") == "string":
        return _convert_text(schema.get("format"), value)
    return value


def _convert_text(form: Any, value: str) -> Any:
    if form == "date-time":
        return datetime.fromisoformat(value.replace("z", "Z"))
    if form == "date":
        return datetime.combine(date.fromisoformat(value), time(), UTC)
    if form == "byte":
        import base64

        return base64.b64decode(value)
    if form == "duration":
        return interpreter().evaluate("duration(text)", {"text": value})
    return value


def open_names(schema: Schema, name: str) -> Iterator[str]:
    """Yield the names of the fields that may hold values of several types."""
    if not schema.get("type") or schema.get("x-kubernetes-preserve-unknown-fields"):
        yield name
    for key, item in (schema.get("properties") or {}).items():
        yield from open_names(item, escape(key) or "")
    for key in ("items", "additionalProperties"):
        if type(schema.get(key)) is dict:
            yield from open_names(schema[key], name)
