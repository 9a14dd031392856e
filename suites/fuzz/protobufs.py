"""Random protobuf bodies: messages with the fields of a kind, and others with none of them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from traincrew.local.apiserver.schema import protobuf
from traincrew.local.apiserver.schema.builtin import builtin_kinds

from . import mutations

if TYPE_CHECKING:
    from suites.differential.random_choice import RandomChoice
    from suites.differential.requests import Resource


def body(choice: RandomChoice, resource: Resource) -> bytes:
    """Return a body of the kind, sometimes damaged."""
    kind = _field(1, resource.api_version.encode()) + _field(2, resource.kind.encode())
    name = builtin_kinds()[resource.group, resource.version, resource.kind]
    metadata = _field(1, choice.one([b"a", b"b", b"c"]))
    message = _field(1, metadata) + _message(choice, name, 0)
    data = b"k8s\x00" + _field(1, kind) + _field(2, message)
    if choice.maybe(0.2):
        place = choice.number(0, len(data))
        data = data[:place] + choice.random.randbytes(choice.number(0, 3)) + data[place + 1 :]
    return data


def _message(choice: RandomChoice, name: str, depth: int) -> bytes:
    rows = protobuf._messages().get(name)
    if rows is None or depth > 12:
        return choice.random.randbytes(choice.number(0, 8))
    parts = []
    for number in choice.some(list(rows), 5):
        _, kind, _ = rows[number]
        count = choice.one([1, 1, 1, 2])
        parts += [_value(choice, int(number), kind, depth) for _ in range(count)]
    if choice.maybe(0.1):
        parts.append(_unknown(choice))
    return b"".join(parts)


def _value(choice: RandomChoice, number: int, kind: str, depth: int) -> bytes:
    if choice.maybe(0.04):
        return _unknown(choice, number)
    match kind:
        case "s" | "y":
            text = choice.one(mutations.TEXTS)
            return _field(number, text.encode() if choice.maybe(0.95) else b"\xff\xfe")
        case "b" | "i":
            return _varint(number << 3) + _varint(choice.one([0, 1, 2, 80, 2**31, 2**64 - 1]))
        case "d":
            return _varint(number << 3 | 1) + struct.pack("<d", choice.one([0.5, float("nan")]))
        case _:
            return _field(number, _message(choice, kind, depth + 1))


def _unknown(choice: RandomChoice, number: int | None = None) -> bytes:
    """Return a field of any number and wire type, such as those of groups and none at all."""
    number = choice.one([0, 1, 15, 200, 2**29]) if number is None else number
    wire = choice.number(0, 7)
    content = choice.random.randbytes(choice.number(0, 12))
    if wire == 2:
        return _field(number, content)
    return _varint(number << 3 | wire) + content


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    result = bytearray()
    while number > 0x7F:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*result, number])
