"""DNS messages, as far as a server of A, SRV and PTR records needs them. Pure.

Formats are those of RFC 1035 (messages), RFC 2782 (SRV) and RFC 6891 (the OPT record of EDNS).
"""

from __future__ import annotations

import struct
from enum import IntEnum
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Code",
    "Kind",
    "MalformedError",
    "Query",
    "Record",
    "encode_name",
    "parse",
    "refuse",
    "respond",
]

_HEADER = struct.Struct("!6H")
_QUESTION = struct.Struct("!2H")
# Type, class, seconds to live, length of the data.
_RECORD = struct.Struct("!2HIH")
_RESPONSE = 0x8000
_AUTHORITATIVE = 0x0400
_TRUNCATED = 0x0200
_RECURSION_DESIRED = 0x0100
_RECURSION_AVAILABLE = 0x0080
_OPCODE = 0x7800
_CLASS_IN = 1
_CLASS_ANY = 255
_LONGEST_NAME = 255
_LONGEST_LABEL = 63
# Datagram size without EDNS (RFC 1035), and the maximum with it (as in CoreDNS), in bytes.
_SMALLEST_DATAGRAM = 512
_LARGEST_DATAGRAM = 4096
# Compression pointer to the question's name, the owner name of every answer.
_POINTER_TO_QUESTION = 0xC000 | _HEADER.size


class Kind(IntEnum):
    """Record types."""

    A = 1
    SOA = 6
    PTR = 12
    AAAA = 28
    SRV = 33
    OPT = 41
    ANY = 255


class Code(IntEnum):
    """Response codes."""

    NO_ERROR = 0
    FORMAT_ERROR = 1
    SERVER_FAILURE = 2
    NAME_ERROR = 3
    NOT_IMPLEMENTED = 4


class MalformedError(Exception):
    """A message is not a valid query; `code` is the response code, None for no response."""

    def __init__(self, code: Code | None) -> None:
        super().__init__("malformed DNS query")
        self.code = code


class Query(NamedTuple):
    """A DNS query.

    Attributes:
        number: the message ID, repeated in the answer.
        name: in lower case, without the final dot.
        kind: of the records asked for; any number.
        question: as received, to be repeated in the answer.
        recursion_desired: repeated in the answer.
        size: the longest datagram the client takes, in bytes.
        extended: whether it speaks EDNS.
    """

    number: int
    name: str
    kind: int
    question: bytes
    recursion_desired: bool
    size: int
    extended: bool


class Record(NamedTuple):
    """The data of a resource record.

    Attributes:
        kind: A, PTR or SRV.
        data: in the wire format.
    """

    kind: Kind
    data: bytes

    @classmethod
    def address(cls, address: str) -> Record:
        """Return an A record."""
        return cls(Kind.A, IPv4Address(address).packed)

    @classmethod
    def pointer(cls, name: str) -> Record:
        """Return a PTR record."""
        return cls(Kind.PTR, encode_name(name))

    @classmethod
    def service(cls, port: int, target: str, weight: int = 100) -> Record:
        """Return an SRV record."""
        return cls(Kind.SRV, struct.pack("!3H", 0, weight, port) + encode_name(target))


def encode_name(name: str) -> bytes:
    """Encode a name in the wire format, without compression.

    Raises:
        ValueError: The name or one of its labels is empty or too long.
    """
    encoded = bytearray()
    for label in name.rstrip(".").split("."):
        octets = label.encode()
        if not 0 < len(octets) <= _LONGEST_LABEL:
            raise ValueError(f"{name!r} is not a DNS name")
        encoded.append(len(octets))
        encoded += octets
    encoded.append(0)
    if len(encoded) > _LONGEST_NAME:
        raise ValueError(f"{name!r} is too long for a DNS name")
    return bytes(encoded)


def parse(message: bytes) -> Query:
    """Parse a query.

    Raises:
        MalformedError: It is not a query with exactly one question of class IN or ANY.
    """
    if len(message) < _HEADER.size:
        raise MalformedError(None)
    number, flags, questions, answers, authorities, additions = _HEADER.unpack_from(message)
    if flags & _RESPONSE:
        # Answering a response could loop for ever.
        raise MalformedError(None)
    if flags & _OPCODE:
        raise MalformedError(Code.NOT_IMPLEMENTED)
    if questions != 1 or answers or authorities:
        raise MalformedError(Code.FORMAT_ERROR)
    try:
        name, end = _read_name(message, _HEADER.size)
        kind, family = _QUESTION.unpack_from(message, end)
    except (IndexError, struct.error, UnicodeDecodeError):
        raise MalformedError(Code.FORMAT_ERROR) from None
    end += _QUESTION.size
    if family not in {_CLASS_IN, _CLASS_ANY}:
        raise MalformedError(Code.NOT_IMPLEMENTED)
    size, extended = _SMALLEST_DATAGRAM, False
    # An OPT record has the root's name, and the size in the field of the class.
    if additions and message[end : end + 1] == b"\0" and len(message) >= end + 1 + _RECORD.size:
        addition, offered, *_ = _RECORD.unpack_from(message, end + 1)
        if addition == Kind.OPT:
            extended = True
            size = min(max(offered, _SMALLEST_DATAGRAM), _LARGEST_DATAGRAM)
    question = message[_HEADER.size : end]
    desired = bool(flags & _RECURSION_DESIRED)
    return Query(number, name.lower(), kind, question, desired, size, extended)


def _read_name(message: bytes, start: int) -> tuple[str, int]:
    """Read an uncompressed name (a first name has nothing to point to); return it and its end."""
    labels = []
    at = start
    while length := message[at]:
        if length > _LONGEST_LABEL or at - start > _LONGEST_NAME:
            raise IndexError
        label = message[at + 1 : at + 1 + length]
        if len(label) < length:
            raise IndexError
        labels.append(label.decode("ascii"))
        at += 1 + length
    return ".".join(labels), at + 1


def respond(
    query: Query,
    records: Sequence[Record] = (),
    code: Code = Code.NO_ERROR,
    *,
    seconds: int = 5,
    authority: str = "",
    stream: bool = False,
) -> bytes:
    """Encode the answer to a query.

    Args:
        query: The question.
        records: The answers.
        code: Response code.
        seconds: Time to live of the answer.
        authority: The authoritative zone; empty where this server has no authority.
        stream: Whether it is sent over TCP, where its length is not limited.
    """
    sections = [
        struct.pack("!H", _POINTER_TO_QUESTION)
        + _RECORD.pack(record.kind, _CLASS_IN, seconds, len(record.data))
        + record.data
        for record in records
    ]
    authorities = [_start_of_authority(authority, seconds)] if authority and not records else []
    additions = []
    if query.extended:
        additions = [b"\0" + _RECORD.pack(Kind.OPT, _LARGEST_DATAGRAM, 0, 0)]
    flags = _RESPONSE | _RECURSION_AVAILABLE | code
    flags |= _RECURSION_DESIRED if query.recursion_desired else 0
    flags |= _AUTHORITATIVE if authority else 0
    length = sum(map(len, (query.question, *sections, *authorities, *additions))) + _HEADER.size
    if not stream and length > query.size:
        # The client retries over TCP.
        flags |= _TRUNCATED
        sections, authorities = [], []
    header = _HEADER.pack(query.number, flags, 1, len(sections), len(authorities), len(additions))
    return b"".join((header, query.question, *sections, *authorities, *additions))


def refuse(message: bytes, code: Code) -> bytes:
    """Encode the answer to a message that `parse` rejected; `message` has a complete header."""
    number, flags = struct.unpack_from("!2H", message)
    kept = flags & (_OPCODE | _RECURSION_DESIRED)
    return _HEADER.pack(number, _RESPONSE | _RECURSION_AVAILABLE | kept | code, 0, 0, 0, 0)


def _start_of_authority(zone: str, seconds: int) -> bytes:
    """Encode the SOA record, which limits negative caching (RFC 2308)."""
    data = encode_name(f"ns.dns.{zone}") + encode_name(f"hostmaster.{zone}")
    data += struct.pack("!5I", 1, 7200, 1800, 86400, seconds)
    return encode_name(zone) + _RECORD.pack(Kind.SOA, _CLASS_IN, seconds, len(data)) + data
