"""Hints for mistakes in manifests: what was probably meant, in the words of the manifest. Pure."""

from __future__ import annotations

import difflib
import re
from typing import Any

__all__ = ["about_field", "about_value", "about_yaml"]

_SIMILARITY = 0.7
_LISTED = 12
"""Number of fields up to which all are named if none is similar."""
_STEP = re.compile(r"\.?([^.\[\]]+)|\[[0-9]+\]")
_TEMPLATE = re.compile(r"\{\{|\{%")
_RENDER = "this is a template: render it first, for a chart of Helm with `helm template`"
_VARIABLE = re.compile(r"\$\{?[A-Za-z_]")
_WRONG_TYPE = re.compile(r'in body must be of type (\w+): "(\w+)"')
_QUANTITY = "[KMGTPE]i"
"""Part of the pattern for quantities in the schemas of Kubernetes."""


def about_yaml(lines: str, problem: str) -> str:
    """Return what may be wrong with text that is not YAML; empty if that is not clear.

    Args:
        lines: The line at which the parser stopped, and the one before it.
        problem: What the parser says.
    """
    if _TEMPLATE.search(lines):
        return _RENDER
    if r"'\t'" in problem:
        return "YAML is indented by spaces, not by tabs"
    if "<block end>" in problem or "mapping values are not allowed" in problem:
        return "is this line indented as the ones that it belongs to?"
    return ""


def about_value(message: str) -> str:
    """Return how to write a value that is refused; empty if that is not known.

    Args:
        message: What the API server says, with the value.
    """
    if _VARIABLE.search(message):
        return "variables are not replaced: envsubst < FILE | traincrew run -"
    if _TEMPLATE.search(message):
        return _RENDER
    if _QUANTITY in message and "should match" in message:
        return 'a quantity is a number with a unit: "2" or "500m" CPUs, "512Mi" or "4Gi" of memory'
    match = _WRONG_TYPE.search(message)
    if match is None:
        return ""
    wanted, found = match.groups()
    if wanted == "string" and found in {"integer", "number", "boolean"}:
        return "write it in quotes"
    if wanted == "integer":
        return "write a whole number, without quotes"
    return "write true or false, without quotes" if wanted == "boolean" else ""


def about_field(schema: dict[str, Any], path: str) -> str:
    """Return what an unknown field was probably meant to be; empty if that is not clear.

    Args:
        schema: OpenAPI schema of the kind.
        path: The field, as API servers write it: ``spec.containers[0].imagee``.
    """
    steps = [match[1] or "" for match in _STEP.finditer(path)]
    if not steps or not steps[-1]:
        return ""
    *parents, name = steps
    known: list[tuple[str, dict[str, Any]]] = [("", schema)]
    for step in parents:
        before, inner = known[-1]
        found = _below(inner, step)
        if found is None:
            return ""
        known.append((f"{before}.{step}" if step else f"{before}[]", found))
    place, last = known[-1]
    if last.get("type") == "array":
        return f'{parents[-1]} is a list: write "- " before the first field of each entry'
    fields = _fields(last)
    elsewhere = [
        f"{at}.{name}".lstrip(".")
        for at, inner in [*reversed(known[:-1]), *_children(place, last)]
        if name in _fields(inner)
    ]
    if elsewhere:
        return f"it belongs to {elsewhere[0]}: is it indented as the fields there?"
    similar = difflib.get_close_matches(
        name.lower(), map(str.lower, fields), n=1, cutoff=_SIMILARITY
    )
    if similar:
        return f"did you mean {next(each for each in fields if each.lower() == similar[0])}?"
    if fields and len(fields) <= _LISTED:
        return f"{place.lstrip('.') or 'there'} has {', '.join(fields)}"
    return ""


def _below(schema: dict[str, Any], step: str) -> dict[str, Any] | None:
    """Return the schema of a field, or of the entries of a list if `step` is empty."""
    if not step:
        found = schema.get("items")
    else:
        found = (schema.get("properties") or {}).get(step) or schema.get("additionalProperties")
    return found if isinstance(found, dict) else None


def _fields(schema: dict[str, Any]) -> list[str]:
    return list(schema.get("properties") or {})


def _children(place: str, schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the objects directly below a schema."""
    return [
        (f"{place}.{name}", inner)
        for name, inner in (schema.get("properties") or {}).items()
        if isinstance(inner, dict) and inner.get("properties")
    ]
