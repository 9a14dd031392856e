"""Errors of Go's JSON decoder for a document that does not fit the type of its kind.

Only called once something is known to be wrong. Messages: ``encoding/json`` and the decoders of
``metav1.Time``, ``resource.Quantity`` and ``intstr.IntOrString``.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from traincrew.local import quantity
from traincrew.local.apiserver.values import times
from traincrew.local.apiserver.values.names import TEMPLATE_GENERATION

from .builtin import builtin_node
from .node import ANY

if TYPE_CHECKING:
    from .node import SchemaNode

__all__ = ["annotated_number_fault", "decode_fault", "nested_schema_fault"]

_JSON_NAMES = {str: "string", bool: "bool", int: "number", float: "number", dict: "object"}
_GO_KINDS = {"string": "string", "boolean": "bool", "integer": "", "number": "float64"}
_BITS = {"int32": 31, "int64": 63}
_QUANTITY = re.compile(r"[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*")
_QUANTITY_FORM = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class _Place(NamedTuple):
    """The struct field that is being decoded."""

    struct: str
    path: str
    converted: bool


class _RefusedError(Exception):
    """A type with its own decoder refused the value; Go stops at once."""


def decode_fault(
    node: SchemaNode, document: dict[str, Any], *, converted: bool = False
) -> str | None:
    """Return Go's first decoding error; None when it can decode everything.

    Args:
        node: schema of a built-in kind.
        document: the document, with its fields in the order they were sent.
        converted: whether upstream converts maps instead of decoding JSON, as it does after a
            strategic merge patch.
    """
    found: list[str] = []
    try:
        _walk(node, document, _Place("", "", converted), found)
    except _RefusedError as refused:
        return str(refused)
    return found[0] if found else None


def _walk(node: SchemaNode, value: Any, place: _Place, found: list[str]) -> None:
    kind = type(value)
    if value is None or node is ANY:
        return
    if node.canonical is not None or node.type == "int-or-string":
        _check_special(node, value)
    elif node.go_type == "[]uint8":
        _check_bytes(node, value, place, found)
    elif node.type == "object" and kind is dict:
        struct = node.go_type.rpartition(".")[2]
        for key, item in value.items():
            child = node.fields.get(key)
            if child is not None:
                # Most values, without a call.
                if child is ANY or (
                    type(item) is str and child.type == "string" and _is_text(child)
                ):
                    continue
                path = f"{place.path}.{key}" if place.path else key
                _walk(child, item, _Place(struct, path, place.converted), found)
            elif node.values is not None:
                _walk(node.values, item, place, found)
    elif node.type == "array" and kind is list:
        if node.items is not None:
            for item in value:
                _walk(node.items, item, place, found)
    elif not _fits(node, value):
        found.append(_cannot(node, value, place))


def _is_text(node: SchemaNode) -> bool:
    """Return whether a string field has no decoder of its own."""
    return node.canonical is None and node.go_type != "[]uint8"


def _fits(node: SchemaNode, value: Any) -> bool:
    kind = type(value)
    match node.type:
        case "string":
            return kind is str
        case "boolean":
            return kind is bool
        case "number":
            return kind is int or kind is float
        case "integer":
            limit = 1 << _BITS.get((node.rules or {}).get("format", ""), 63)
            return kind is int and -limit <= value < limit
        case wanted:
            return not wanted


def _cannot(node: SchemaNode, value: Any, place: _Place) -> str:
    kind = type(value)
    if place.converted and kind in {dict, list} and node.type in _GO_KINDS:
        return f"unrecognized type: {_GO_KINDS[node.type] or node.go_type}"
    name = "array" if kind is list else _JSON_NAMES[kind]
    if name == "number" and node.type in {"integer", "number"}:
        name += f" {msgspec.json.encode(value).decode()}"
    where = f"Go struct field {place.struct}.{place.path}"
    return f"json: cannot unmarshal {name} into {where} of type {node.go_type}"


def _check_bytes(node: SchemaNode, value: Any, place: _Place, found: list[str]) -> None:
    if type(value) is not str:
        found.append(_cannot(node, value, place))
        return
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        found.append(f"illegal base64 data at input byte {_base64_fault(value)}")


def _base64_fault(text: str) -> int:
    """Return the offset at which Go stops reading."""
    body = re.match(r"[A-Za-z0-9+/]*", text)
    assert body is not None
    end = body.end()
    if end == len(text) or (text[end] == "=" and end % 4 > 1):
        return end - end % 4 if end == len(text) else len(text)
    return end


def _check_special(node: SchemaNode, value: Any) -> None:
    kind = type(value)
    if node.type == "int-or-string":
        if kind is not str and not (kind is int and -(1 << 31) <= value < 1 << 31):
            name = "array" if kind is list else _JSON_NAMES[kind]
            if name == "number":
                name += f" {msgspec.json.encode(value).decode()}"
            raise _RefusedError(f"json: cannot unmarshal {name} into Go value of type int32")
    elif node.type == "quantity":
        _check_quantity(value)
    elif kind is not str:
        name = "array" if kind is list else _JSON_NAMES[kind]
        raise _RefusedError(f"json: cannot unmarshal {name} into Go value of type string")
    else:
        fault = times.fault(value, micro=node.canonical is times.canonical_micro)
        if fault is not None:
            raise _RefusedError(fault)


def _check_quantity(value: Any) -> None:
    kind = type(value)
    text = value.strip() if kind is str else msgspec.json.encode(value).decode()
    try:
        if kind is str or kind is int or kind is float:
            quantity.parse(text)
            return
    except ValueError:
        pass
    if not _QUANTITY.fullmatch(text):
        raise _RefusedError(_QUANTITY_FORM)
    if text.count(".") > 1:
        raise _RefusedError("unable to parse numeric part of quantity")
    raise _RefusedError("unable to parse quantity's suffix")


def annotated_number_fault(document: dict[str, Any]) -> str:
    """Return what is wrong with a DaemonSet's template generation; empty when nothing is."""
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if type(metadata) is dict else None
    value = (annotations or {}).get(TEMPLATE_GENERATION)
    if value is None:
        return ""
    prefix = f"strconv.ParseInt: parsing {msgspec.json.encode(value).decode()}: "
    if not _INTEGER.fullmatch(value):
        return f"{prefix}invalid syntax"
    return "" if -(1 << 63) <= int(value) < 1 << 63 else f"{prefix}value out of range"


_INTEGER = re.compile(r"[+-]?[0-9]+")


_JSON_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_FREE = frozenset({"default", "enum", "example"})


def nested_schema_fault(definition: dict[str, Any]) -> str:
    """Return Go's first error for the schemas in a CustomResourceDefinition; empty without one.

    ``items`` and ``additionalProperties`` have any type in the published schema, because each is a
    schema or something else (``JSONSchemaPropsOrArray``, ``JSONSchemaPropsOrBool``).
    """
    node = builtin_node(_JSON_SCHEMA)
    remaining: list[Any] = [definition.get("spec")]
    while remaining:
        value = remaining.pop()
        if type(value) is list:
            remaining += value
            continue
        if type(value) is not dict:
            continue
        extra = value.get("additionalProperties")
        if extra is not None and type(extra) not in {dict, bool}:
            return "boolean or JSON schema expected"
        inner = value.get("items")
        for schema in (extra, *(inner if type(inner) is list else (inner,))):
            if type(schema) is dict and (fault := decode_fault(node, schema)):
                return fault
        remaining += [
            item
            for key, item in value.items()
            if (type(item) is dict or type(item) is list) and key not in _FREE
        ]
    return ""
