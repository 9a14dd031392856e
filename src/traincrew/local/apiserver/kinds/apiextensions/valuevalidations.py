"""Check the value validations of a schema: patterns, and what ``allOf`` and the like contain.

In the words of apiextensions, a structural schema is a structure and value validations. The latter
only restrict values, and say nothing about the types of fields.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.regex import RegexError, compile_pattern

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause

__all__ = ["Schema", "value_validations"]

Schema = dict[str, Any]

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_JUNCTORS = ("allOf", "anyOf", "oneOf")


def value_validations(found: list[Cause], schema: Schema, path: str, structure: Schema) -> None:
    """Check the value validations of a schema, or of a branch of it.

    Args:
        found: extended in place.
        schema: the schema or branch.
        path: of it.
        structure: the schema outside all branches that describes the same value.
    """
    pattern = schema.get("pattern")
    if pattern is not None:
        try:
            compile_pattern(pattern)
        except RegexError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            found.append(why.invalid(f"{path}.pattern", pattern, detail))
    int_or_string = bool(structure.get("x-kubernetes-int-or-string"))
    for word in _JUNCTORS:
        if word == "anyOf" and int_or_string and schema.get(word) == _INT_OR_STRING:
            continue
        for index, branch in enumerate(items(schema, word)):
            here = f"{path}.{word}[{index}]"
            _branch(found, branch, here, structure)
    if type(schema.get("not")) is dict:
        _branch(found, schema["not"], f"{path}.not", structure)


_EMPTY_IN_BRANCH = (
    ("type", "empty"),
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-validations", "empty"),
)


def _branch(found: list[Cause], branch: Schema, path: str, structure: Schema) -> None:
    """Check a schema under allOf, anyOf, oneOf or not: conditions only, no structure."""
    for key, wanted in _EMPTY_IN_BRANCH:
        if branch.get(key) not in (None, "", False, [], {}):
            detail = f"must be {wanted} to be structural"
            found.append(why.forbidden(f"{path}.{key}", detail))
    outside = field(structure, "properties")
    for key, inner in field(branch, "properties").items():
        here = f"{path}.properties[{key}]"
        if key == "metadata":
            found.append(why.forbidden(here, "must not be specified in a nested context"))
        if key in outside:
            _branch(found, inner, here, outside[key])
        elif not structure.get("x-kubernetes-preserve-unknown-fields"):
            base = re.sub(r"\.(allOf|anyOf|oneOf)\[\d+\]|\.not(?=\.|$)", "", here)
            found.append(why.required(base, f"because it is defined in {here}"))
    if type(branch.get("items")) is dict:
        if type(structure.get("items")) is dict:
            _branch(found, branch["items"], f"{path}.items", structure["items"])
        else:
            base = re.sub(r"\.(allOf|anyOf|oneOf)\[\d+\]|\.not(?=\.|$)", "", path)
            found.append(why.required(f"{base}.items", f"because it is defined in {path}.items"))
    value_validations(found, branch, path, structure)
