"""The protobuf encoding of an OpenAPI v2 document, which kubectl requests.

The messages are those of gnostic's ``openapi.v2.Document`` (openapiv2/OpenAPIv2.proto of
github.com/google/gnostic-models); ``_MESSAGES`` has the fields that our document uses. Gnostic
stores free-form values (defaults, examples, ``x-…`` extensions) as YAML text, of which JSON is a
subset.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.local.apiserver.values.codec import encode as encode_json

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["encode"]

_VARINT, _DOUBLE, _BYTES = 0, 1, 2


class _Field(NamedTuple):
    """A field of a message: its number, and how its value is encoded.

    Kinds are ``string``, ``bool``, ``int``, ``double``, ``any`` (free-form) and the names of
    messages. Each item of a repeated field is encoded separately.
    """

    number: int
    kind: str
    repeated: bool = False


class _Message(NamedTuple):
    """The fields of a message by their JSON names, and the number for extensions (0: none)."""

    fields: dict[str, _Field]
    extensions: int = 0


_MESSAGES = {
    "Document": _Message(
        {
            "swagger": _Field(1, "string"),
            "info": _Field(2, "Info"),
            "paths": _Field(8, "Paths"),
            "definitions": _Field(9, "Definitions"),
        },
        16,
    ),
    "Info": _Message({"title": _Field(1, "string"), "version": _Field(2, "string")}, 7),
    "PathItem": _Message(
        {
            "get": _Field(2, "Operation"),
            "put": _Field(3, "Operation"),
            "post": _Field(4, "Operation"),
            "delete": _Field(5, "Operation"),
            "patch": _Field(8, "Operation"),
            "parameters": _Field(9, "ParametersItem", repeated=True),
        },
        10,
    ),
    "Operation": _Message(
        {
            "operationId": _Field(5, "string"),
            "produces": _Field(6, "string", repeated=True),
            "consumes": _Field(7, "string", repeated=True),
            "parameters": _Field(8, "ParametersItem", repeated=True),
            "responses": _Field(9, "Responses"),
        },
        13,
    ),
    "body": _Message(
        {
            "name": _Field(2, "string"),
            "in": _Field(3, "string"),
            "required": _Field(4, "bool"),
            "schema": _Field(5, "Schema"),
        },
        6,
    ),
    "query": _Message(
        {
            "in": _Field(2, "string"),
            "name": _Field(4, "string"),
            "type": _Field(6, "string"),
            "uniqueItems": _Field(20, "bool"),
        },
        23,
    ),
    "path": _Message(
        {
            "required": _Field(1, "bool"),
            "in": _Field(2, "string"),
            "name": _Field(4, "string"),
            "type": _Field(5, "string"),
            "uniqueItems": _Field(19, "bool"),
        },
        22,
    ),
    "Response": _Message({"description": _Field(1, "string"), "schema": _Field(2, "SchemaItem")}),
    "Schema": _Message(
        {
            "$ref": _Field(1, "string"),
            "format": _Field(2, "string"),
            "title": _Field(3, "string"),
            "description": _Field(4, "string"),
            "default": _Field(5, "any"),
            "multipleOf": _Field(6, "double"),
            "maximum": _Field(7, "double"),
            "exclusiveMaximum": _Field(8, "bool"),
            "minimum": _Field(9, "double"),
            "exclusiveMinimum": _Field(10, "bool"),
            "maxLength": _Field(11, "int"),
            "minLength": _Field(12, "int"),
            "pattern": _Field(13, "string"),
            "maxItems": _Field(14, "int"),
            "minItems": _Field(15, "int"),
            "uniqueItems": _Field(16, "bool"),
            "maxProperties": _Field(17, "int"),
            "minProperties": _Field(18, "int"),
            "required": _Field(19, "string", repeated=True),
            "enum": _Field(20, "any", repeated=True),
            "additionalProperties": _Field(21, "AdditionalPropertiesItem"),
            "type": _Field(22, "TypeItem"),
            "items": _Field(23, "ItemsItem"),
            "properties": _Field(25, "Definitions"),
            "example": _Field(30, "any"),
        },
        31,
    ),
}

# Messages that are maps: the field number of their entries, and the kind of an entry's value.
_MAPS = {
    "Paths": (2, "PathItem"),
    "Definitions": (1, "Schema"),
    "Responses": (1, "ResponseValue"),
}
# Messages that wrap a single field with the number 1: the kind of that field.
_WRAPPERS = {"ItemsItem": "Schema", "SchemaItem": "Schema", "ResponseValue": "Response"}
# Fields of NonBodyParameter.
_PARAMETERS = {"query": 3, "path": 4}


def encode(document: Document) -> bytes:
    """Encode an OpenAPI v2 document as ``openapi.v2.Document``, without fields unknown to gnostic.

    Raises:
        LookupError: a parameter is neither in the query nor in the path nor in the body.
    """
    return _encode("Document", document)


def _encode(kind: str, value: Any) -> bytes:
    """Encode the value of a message, without its length."""
    if kind == "any":
        return _field(2, _BYTES, encode_json(value) + b"\n")
    if kind in _MAPS:
        number, inner = _MAPS[kind]
        return b"".join(_named(number, inner, name, each) for name, each in value.items())
    if kind in _WRAPPERS:
        return _field(1, _BYTES, _encode(_WRAPPERS[kind], value))
    if kind == "TypeItem":
        names = value if isinstance(value, list) else [value]
        return b"".join(_field(1, _BYTES, name.encode()) for name in names)
    if kind == "AdditionalPropertiesItem":
        if isinstance(value, bool):
            return _field(2, _VARINT, value)
        return _field(1, _BYTES, _encode("Schema", value))
    if kind == "ParametersItem":
        return _field(1, _BYTES, _parameter(value))
    return _message(_MESSAGES[kind], value)


def _message(message: _Message, value: Document) -> bytes:
    parts: list[bytes] = []
    for name, each in value.items():
        field = message.fields.get(name)
        if field is None:
            if message.extensions and name.startswith("x-"):
                parts.append(_named(message.extensions, "any", name, each))
            continue
        parts.extend(_value(field, item) for item in (each if field.repeated else (each,)))
    return b"".join(parts)


def _value(field: _Field, value: Any) -> bytes:
    if field.kind == "string":
        return _field(field.number, _BYTES, value.encode())
    if field.kind in {"bool", "int"}:
        return _field(field.number, _VARINT, value)
    if field.kind == "double":
        return _field(field.number, _DOUBLE, value)
    return _field(field.number, _BYTES, _encode(field.kind, value))


def _parameter(value: Document) -> bytes:
    where = value["in"]
    inner = _encode(where, value)
    if where == "body":
        return _field(1, _BYTES, inner)
    return _field(2, _BYTES, _field(_PARAMETERS[where], _BYTES, inner))


def _named(number: int, kind: str, name: str, value: Any) -> bytes:
    """Encode an entry of a map: a message with a name and a value."""
    entry = _field(1, _BYTES, name.encode()) + _field(2, _BYTES, _encode(kind, value))
    return _field(number, _BYTES, entry)


def _field(number: int, wire_type: int, value: Any) -> bytes:
    key = _varint(number << 3 | wire_type)
    if wire_type == _BYTES:
        return b"".join((key, _varint(len(value)), value))
    if wire_type == _DOUBLE:
        return key + struct.pack("<d", value)
    return key + _varint(int(value))


def _varint(value: int) -> bytes:
    if value < 0:
        value += 1 << 64  # int64 is encoded in two's complement
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)
