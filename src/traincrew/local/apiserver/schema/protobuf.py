r"""Request bodies in Kubernetes' protobuf form, decoded without a protobuf runtime.

kubectl from 1.32 on and every typed Go client send ``application/vnd.kubernetes.protobuf``: the
four bytes ``k8s\\0`` and a ``runtime.Unknown`` message around the object. Responses may be JSON, so
only decoding is needed. ``hack/generate_protobuf.py`` generates the field table.
"""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.local.apiserver.values.limits import MAX_VALUES, too_many_values

from .builtin import META, builtin_kinds
from .packed import unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ProtobufError", "decode"]

_MAGIC = b"k8s\x00"
_MAX_DEPTH = 100
_GO_ZERO_TIME = -62135596800
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"

# JSON name, type (s, b, i, d, y or the name of a message), flags; see the generating script.
_Row = tuple[str, str, str]


class ProtobufError(ValueError):
    """The bytes are not a message that this server can decode."""


@cache
def _messages() -> dict[str, dict[int, _Row]]:
    return msgspec.json.decode(unpacked("protobuf"), type=dict[str, dict[int, _Row]])


def decode(body: bytes) -> dict[str, Any]:
    r"""Decode a body that starts with ``k8s\\0`` into the document of its JSON form.

    Raises:
        ProtobufError: the message is malformed or of a kind the server does not know.
        StatusError: 413 for more than `MAX_VALUES` fields.
    """
    if not body.startswith(_MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message")
    api_version = kind = ""
    raw = b""
    _budget.left = MAX_VALUES
    for number, value in _fields(body[len(_MAGIC) :]):
        if number == 1:
            for inner, text in _fields(_bytes(value)):
                if inner == 1:
                    api_version = _bytes(text).decode(errors="replace")
                elif inner == 2:
                    kind = _bytes(text).decode(errors="replace")
        elif number == 2:
            raw = _bytes(value)
        elif number == 3 and value:
            raise ProtobufError("a content encoding inside the message is not supported")
    name = _message_name(api_version, kind)
    return {"kind": kind, "apiVersion": api_version, **_message(name, raw, 0)}


def _message_name(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    # Every group has its own DeleteOptions, all identical.
    name = (
        f"{META}.{kind}"
        if kind == "DeleteOptions"
        else builtin_kinds().get((group, version, kind), "")
    )
    if name not in _messages():
        raise ProtobufError(f'no kind "{kind}" is registered for version "{api_version}"')
    return name


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("wrong wire type")
    return value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data):
            raise ProtobufError("unexpected end of message")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
        if shift > 63:
            raise ProtobufError("integer overflow")


class _Budget:
    """The number of fields that a body may still have."""

    def __init__(self) -> None:
        self.left = 0

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise too_many_values()


_budget = _Budget()


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield field numbers and raw values: integers for varints, bytes for the rest."""
    position = 0
    while position < len(data):
        _budget.spend()
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire_type == 2:
            size, position = _varint(data, position)
        elif wire_type == 1:
            size = 8
        elif wire_type == 5:
            size = 4
        else:
            raise ProtobufError(f"illegal wire type {wire_type}")
        if position + size > len(data):
            raise ProtobufError("unexpected end of message")
        yield number, data[position : position + size]
        position += size


def _scalar(kind: str, value: int | bytes) -> Any:
    if kind in ("i", "b"):
        if not isinstance(value, int):
            raise ProtobufError("wrong wire type")
        if kind == "b":
            return value != 0
        return value - (1 << 64) if value >= 1 << 63 else value
    data = _bytes(value)
    if kind == "s":
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ProtobufError("a string is not UTF-8") from None
    if kind == "y":
        return base64.b64encode(data).decode()
    try:
        number: float = struct.unpack("<d" if len(data) == 8 else "<f", data)[0]
    except struct.error:
        raise ProtobufError("wrong wire type") from None
    return int(number) if number.is_integer() else number


def _value(kind: str, value: int | bytes, depth: int) -> Any:
    return _scalar(kind, value) if len(kind) == 1 else _message(kind, _bytes(value), depth + 1)


def _message(name: str, data: bytes, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise ProtobufError("message is nested too deeply")
    special = _SPECIAL.get(name)
    if special is not None:
        return special(data, depth)
    rows = _messages().get(name)
    if rows is None:
        raise ProtobufError(f"unknown message {name}")
    result: dict[str, Any] = {}
    for number, value in _fields(data):
        row = rows.get(number)
        if row is None:
            continue  # a field of a newer release
        key, kind, flags = row
        if "m" in flags:
            entry = dict(_fields(_bytes(value)))
            map_key = _scalar("s", entry.get(1, b""))
            item = entry.get(2)
            empty: int | bytes = 0 if kind in ("i", "b") else b""
            result.setdefault(key, {})[map_key] = _value(
                kind, empty if item is None else item, depth
            )
        elif "r" in flags:
            result.setdefault(key, []).append(_value(kind, value, depth))
        elif "n" in flags:
            result.update(_value(kind, value, depth))
        else:
            decoded = _value(kind, value, depth)
            if decoded is None or ("o" in flags and not decoded):
                continue
            result[key] = decoded
    return result


# --- messages with a JSON form of their own -----------------------------------------------------


def _simple(data: bytes, **fields: str) -> dict[str, Any]:
    """Decode a small message; `fields` are names and types in the order of their numbers."""
    names = list(fields.items())
    result = {}
    for number, value in _fields(data):
        if 1 <= number <= len(names):
            key, kind = names[number - 1]
            result[key] = _scalar(kind, value)
    return result


def _time(data: bytes, _: int) -> str | None:
    moment = _moment(data)
    return None if moment is None else _text(moment, "seconds")


def _micro_time(data: bytes, _: int) -> str | None:
    moment = _moment(data)
    return None if moment is None else _text(moment, "microseconds")


def _text(moment: datetime, precision: str) -> str:
    # strftime does not zero-pad years before 1000.
    return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def _moment(data: bytes) -> datetime | None:
    parts = _simple(data, seconds="i", nanos="i")
    seconds = parts.get("seconds", 0)
    if not data or seconds == _GO_ZERO_TIME:
        return None
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=parts.get("nanos", 0) // 1000)
    except OverflowError:
        raise ProtobufError("a time is out of range") from None


def _quantity(data: bytes, _: int) -> str:
    return _simple(data, string="s").get("string", "0") or "0"


def _int_or_string(data: bytes, _: int) -> int | str:
    parts = _simple(data, type="i", number="i", text="s")
    result: int | str = parts.get("text", "") if parts.get("type") else parts.get("number", 0)
    return result


def _raw_json(data: bytes, _: int) -> Any:
    for number, value in _fields(data):
        if number == 1 and value:
            try:
                return msgspec.json.decode(_bytes(value))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                raise ProtobufError("a raw value is not JSON") from None
    return None


def _texts(data: bytes, _: int) -> list[str]:
    return [_scalar("s", value) for number, value in _fields(data) if number == 1]


def _schema_or(other: Callable[[list[int | bytes], int], Any]) -> Callable[[bytes, int], Any]:
    """Return a decoder for JSONSchemaPropsOr…: a schema, or something else."""

    def read(data: bytes, depth: int) -> Any:
        schema = None
        rest: list[tuple[int, int | bytes]] = []
        for number, value in _fields(data):
            if isinstance(value, bytes) and number == schema_number:
                schema = _message(f"{_EXTENSIONS}.JSONSchemaProps", value, depth + 1)
            else:
                rest.append((number, value))
        if schema is not None:
            return schema
        return other([value for _, value in rest], depth)

    schema_number = 2 if other is _allows else 1
    return read


def _allows(values: list[int | bytes], _: int) -> bool:
    return any(value for value in values)


def _schemas(values: list[int | bytes], depth: int) -> list[Any]:
    return [
        _message(f"{_EXTENSIONS}.JSONSchemaProps", _bytes(value), depth + 1) for value in values
    ]


def _names(values: list[int | bytes], _: int) -> list[str]:
    return [_scalar("s", value) for value in values]


_SPECIAL: dict[str, Callable[[bytes, int], Any]] = {
    f"{META}.Time": _time,
    f"{META}.MicroTime": _micro_time,
    f"{META}.FieldsV1": _raw_json,
    f"{META}.Verbs": _texts,
    "io.k8s.api.authentication.v1.ExtraValue": _texts,
    "io.k8s.api.authorization.v1.ExtraValue": _texts,
    "io.k8s.api.certificates.v1.ExtraValue": _texts,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _quantity,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw_json,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    f"{_EXTENSIONS}.JSON": _raw_json,
    f"{_EXTENSIONS}.JSONSchemaPropsOrArray": _schema_or(_schemas),
    f"{_EXTENSIONS}.JSONSchemaPropsOrBool": _schema_or(_allows),
    f"{_EXTENSIONS}.JSONSchemaPropsOrStringArray": _schema_or(_names),
}
