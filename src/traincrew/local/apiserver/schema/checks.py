"""Check a document against its schema: types, ranges, formats, uniqueness.

Messages are those of the validator of upstream's custom resources (kube-openapi
``pkg/validation/validate``). Built-in kinds go through the same checks; their types come from the
published definitions, and rules between fields are in ``kinds``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values import times
from traincrew.local.apiserver.values.codec import encode_sorted
from traincrew.local.apiserver.values.formats import is_format
from traincrew.local.apiserver.values.paths import Path, render
from traincrew.local.apiserver.values.regex import MAX_STEPS

from .custom import crd_node
from .node import ANY, SchemaNode

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.regex import StoredPattern

__all__ = ["check"]

_QUANTITY = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?\Z"
)
_QUANTITY_TEXT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_TYPE_NAMES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}
_INTEGER_LIMITS = {"int32": 1 << 31, "int64": 1 << 63}


def check(node: SchemaNode, value: Any, path: Path, found: list[Cause]) -> None:
    """Append a cause for every error in a value.

    Args:
        node: schema of the value.
        value: any JSON value.
        path: path of the value.
        found: the causes, extended in place.
    """
    kind = type(value)
    wanted = node.type
    if wanted == "string":
        if kind is not str:
            _wrong_type(node, value, path, found)
            return
        if node.canonical is times.canonical_micro and (fault := times.fault(value, micro=True)):
            found.append(why.type_invalid(render(path), value, fault))
            return
    elif wanted == "object":
        if kind is not dict:
            _wrong_type(node, value, path, found)
            return
        _check_object(node, value, path, found)
    elif wanted == "array":
        if kind is not list:
            _wrong_type(node, value, path, found)
            return
        _check_list(node, value, path, found)
    elif wanted == "integer":
        if kind is not int and not (kind is float and value.is_integer()):
            _wrong_type(node, value, path, found)
            return
    elif wanted == "boolean":
        if kind is not bool:
            _wrong_type(node, value, path, found)
            return
    elif wanted == "number":
        if kind is not int and kind is not float:
            _wrong_type(node, value, path, found)
            return
    elif wanted == "int-or-string":
        if kind is not int and kind is not str:
            _wrong_type(node, value, path, found, "integer,string")
            return
    elif wanted == "quantity":
        _check_quantity(value, path, found)
        return
    elif value is None:
        return
    elif kind is dict:
        if node is not ANY:
            _check_object(node, value, path, found)
    elif kind is list and node.items is not None and node.items is not ANY:
        _check_list(node, value, path, found)
    if node.pattern is not None and kind is str:
        _check_pattern(node.pattern, value, path, found)
    if node.rules is not None:
        _check_rules(node.rules, value, path, found)


def _check_pattern(stored: StoredPattern, value: str, path: Path, found: list[Cause]) -> None:
    pattern = stored.compiled
    if pattern is None:
        return
    if not pattern.allows(value):
        where = render(path)
        limit = MAX_STEPS // pattern.size
        detail = f"{where} in body is too long for '{pattern.source}': at most {limit} characters"
        found.append(why.invalid(where, f"{value[:100]}…", detail))
    elif not pattern.search(value):
        where = render(path)
        detail = f"{where} in body should match '{pattern.source}'"
        found.append(why.invalid(where, value, detail))


def _wrong_type(
    node: SchemaNode, value: Any, path: Path, found: list[Cause], wanted: str | None = None
) -> None:
    if value is None and (node.nullable or node.null_is_absent):
        if node.rules is not None and not node.null_is_absent:
            _check_rules(node.rules, value, path, found)  # null is no member of an enum
        return
    where = render(path)
    name = _TYPE_NAMES[type(value)]
    detail = f'{where} in body must be of type {wanted or node.type}: "{name}"'
    found.append(why.type_invalid(where, name, detail))
    if node.schema and node.rules is not None and "enum" in node.rules:
        found.append(why.not_supported(where, value, node.rules["enum"]))


def _check_quantity(value: Any, path: Path, found: list[Cause]) -> None:
    kind = type(value)
    if kind is int or kind is float or (kind is str and _QUANTITY.match(value)):
        return
    if value is not None:
        found.append(why.type_invalid(render(path), value, _QUANTITY_TEXT))


def _check_object(node: SchemaNode, value: dict[str, Any], path: Path, found: list[Cause]) -> None:
    fields, rest = node.fields, node.values
    for key in node.required:
        if key not in value or (value[key] == "" and node.null_is_absent):
            found.append(why.required(render((path, key))))  # noqa: PERF401 - nearly always none
    for key, item in value.items():
        child = fields.get(key)
        if child is None:
            if rest is None or rest is ANY:
                continue
            child = rest
        # The two most common cases by far, without a call.
        if child.type == "string" and type(item) is str:
            if child.rules is None and child.pattern is None:
                continue
        elif child is ANY:
            continue
        check(child, item, (path, key), found)
    if node.embedded and path is not None:
        found.extend(
            why.required(render((path, key)), "must not be empty")
            for key in ("apiVersion", "kind")
            if key not in value
        )


def _check_list(node: SchemaNode, value: list[Any], path: Path, found: list[Cause]) -> None:
    items = node.items
    if items is None or items is ANY:
        return
    if items.type == "string" and items.rules is None and items.pattern is None:
        for index, item in enumerate(value):
            if type(item) is not str:
                check(items, item, (path, index), found)
    else:
        for index, item in enumerate(value):
            check(items, item, (path, index), found)
    # Built-in kinds have rules of their own: a Pod may set a variable twice.
    if node.schema and (node.keys or node.is_set):
        _check_unique(node, value, path, found)


def _check_unique(node: SchemaNode, value: list[Any], path: Path, found: list[Cause]) -> None:
    seen: set[bytes] = set()
    repeated: set[bytes] = set()
    for index, item in enumerate(value):
        identity = item
        if node.keys:
            if type(item) is not dict:
                continue
            identity = {
                key: item.get(key, node.key_defaults.get(key))
                for key in node.keys
                if key in item or key in node.key_defaults
            }
        text = encode_sorted(identity)
        if text in seen and text not in repeated:
            found.append(why.duplicate(render((path, index)), identity))
            repeated.add(text)
        seen.add(text)


def _check_rules(rules: dict[str, Any], value: Any, path: Path, found: list[Cause]) -> None:
    kind = type(value)
    if "enum" in rules and not any(value == item and type(item) is kind for item in rules["enum"]):
        found.append(why.not_supported(render(path), value, rules["enum"]))
    if kind is int or kind is float:
        _check_number(rules, value, path, found)
    elif kind is str:
        _check_text(rules, value, path, found)
    elif kind is list:
        _check_size(rules, "items", len(value), path, found)
    elif kind is dict:
        _check_size(rules, "properties", len(value), path, found)
    if "allOf" in rules or "anyOf" in rules or "oneOf" in rules or "not" in rules:
        _check_combined(rules, value, path, found)


def _check_number(rules: dict[str, Any], value: float, path: Path, found: list[Cause]) -> None:
    def refuse(detail: str) -> None:
        where = render(path)
        found.append(why.invalid(where, value, f"{where} in body {detail}"))

    limit = _INTEGER_LIMITS.get(rules.get("format", ""))
    if limit is not None and not -limit <= value < limit:
        where = render(path)
        name = _TYPE_NAMES[type(value)]
        detail = f'{where} in body must be of type {rules["format"]}: "{name}"'
        found.append(why.type_invalid(where, value, detail))
    if "minimum" in rules:
        minimum = rules["minimum"]
        if rules.get("exclusiveMinimum"):
            if value <= minimum:
                refuse(f"should be greater than {minimum}")
        elif value < minimum:
            refuse(f"should be greater than or equal to {minimum}")
    if "maximum" in rules:
        maximum = rules["maximum"]
        if rules.get("exclusiveMaximum"):
            if value >= maximum:
                refuse(f"should be less than {maximum}")
        elif value > maximum:
            refuse(f"should be less than or equal to {maximum}")
    if "multipleOf" in rules:
        quotient = value / rules["multipleOf"]
        if abs(quotient - round(quotient)) > 1e-9:
            refuse(f"should be a multiple of {rules['multipleOf']}")


def _check_text(rules: dict[str, Any], value: str, path: Path, found: list[Cause]) -> None:
    if "maxLength" in rules and len(value) > rules["maxLength"]:
        found.append(why.too_long(render(path), rules["maxLength"]))
    if "minLength" in rules and len(value) < rules["minLength"]:
        where = render(path)
        detail = f"{where} in body should be at least {rules['minLength']} chars long"
        found.append(why.invalid(where, value, detail))
    if "format" in rules and not is_format(rules["format"], value):
        where = render(path)
        detail = f"{where} in body must be of type {rules['format']}: {why.quote(value)}"
        found.append(why.type_invalid(where, value, detail))


def _check_size(
    rules: dict[str, Any], noun: str, size: int, path: Path, found: list[Cause]
) -> None:
    suffix = noun.capitalize()
    maximum, minimum = rules.get(f"max{suffix}"), rules.get(f"min{suffix}")
    if maximum is not None and size > maximum:
        found.append(why.too_many(render(path), size, maximum))
    if minimum is not None and size < minimum:
        where = render(path)
        detail = f"{where} in body should have at least {minimum} {noun}"
        found.append(why.invalid(where, size, detail))


def _branches(rules: dict[str, Any], word: str) -> list[SchemaNode]:
    """Return the schemas below a combining keyword, compiled on first use."""
    compiled = rules.get(f"_{word}")
    if compiled is None:
        schemas = [rules[word]] if word == "not" else rules[word]
        compiled = rules[f"_{word}"] = [crd_node(schema, root=False) for schema in schemas]
    nodes: list[SchemaNode] = compiled
    return nodes


def _fewest(results: list[list[Cause]]) -> list[Cause]:
    """Return the causes of the branch with the fewest."""
    return min(results, key=lambda faults: len(faults))  # noqa: PLW0108 - `len` confuses mypy


def _check_combined(rules: dict[str, Any], value: Any, path: Path, found: list[Cause]) -> None:
    def faults(node: SchemaNode) -> list[Cause]:
        inner: list[Cause] = []
        check(node, value, path, inner)
        return inner

    def refuse(detail: str) -> None:
        where = render(path)
        found.append(why.invalid(where, "" if type(value) in (dict, list) else value, detail))

    name = why.quote(render(path))
    for node in _branches(rules, "allOf") if "allOf" in rules else ():
        found.extend(faults(node))
    if "anyOf" in rules:
        results = [faults(node) for node in _branches(rules, "anyOf")]
        if all(results):
            refuse(f"{name} must validate at least one schema (anyOf)")
            found.extend(_fewest(results))
    if "oneOf" in rules:
        results = [faults(node) for node in _branches(rules, "oneOf")]
        valid = sum(not result for result in results)
        if valid != 1:
            none = "Found none valid" if not valid else f"Found {valid} valid alternatives"
            refuse(f"{name} must validate one and only one schema (oneOf). {none}")
            if not valid:
                found.extend(_fewest(results))
    if "not" in rules and not faults(_branches(rules, "not")[0]):
        refuse(f"{name} must not validate the schema (not)")
