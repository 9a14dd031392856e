"""JSON values as Go's ``fmt`` prints them, for messages that contain them in that form."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["TYPES", "shown", "syntax"]

TYPES = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}
"""The Go types that JSON is decoded into."""


def shown(value: Any) -> str:
    """Return a value as ``%v`` prints it: ``map[a:1 b:[x y]]``."""
    kind = type(value)
    if kind is dict:
        return f"map[{' '.join(f'{key}:{shown(value[key])}' for key in sorted(value))}]"
    if kind is list:
        return f"[{' '.join(map(shown, value))}]"
    if value is None:
        return "<nil>"
    return str(value) if kind is str else msgspec.json.encode(value).decode()


def syntax(value: Any) -> str:
    """Return a value as ``%#v`` prints it: ``map[string]interface {}{"a":1}``."""
    kind = type(value)
    if kind is dict:
        items = ", ".join(f"{syntax(key)}:{syntax(value[key])}" for key in sorted(value))
        return f"{TYPES[dict]}{{{items}}}"
    if kind is list:
        return f"{TYPES[list]}{{{', '.join(map(syntax, value))}}}"
    if value is None:
        return "interface {}(nil)"
    return msgspec.json.encode(value).decode()
