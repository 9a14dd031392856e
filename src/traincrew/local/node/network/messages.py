"""DNS messages, as far as a server of A, CNAME, SRV, PTR and TXT records needs them. Pure.

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
    "MalformedError",
    "Query",
    "Record",
    "RecordType",
    "ask",
    "encode_name",
    "is_truncated",
    "parse",
    "read_answers",
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
_POINTER = 0xC0


class RecordType(IntEnum):
    """Record types."""

    A = 1
    CNAME = 5
    SOA = 6
    PTR = 12
    TXT = 16
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
        kind: A, CNAME, SRV, PTR or TXT; of other servers' records any number.
        data: in the wire format.
        owner: the name that has it; empty for the name in the question.
    """

    kind: int
    data: bytes
    owner: str = ""

    @classmethod
    def address(cls, address: str) -> Record:
        """Return an A record."""
        return cls(RecordType.A, IPv4Address(address).packed)

    @classmethod
    def pointer(cls, name: str) -> Record:
        """Return a PTR record."""
        return cls(RecordType.PTR, encode_name(name))

    @classmethod
    def alias(cls, name: str) -> Record:
        """Return a CNAME record.

        Raises:
            ValueError: It is not a DNS name.
        """
        return cls(RecordType.CNAME, encode_name(name))

    @classmethod
    def text(cls, text: str) -> Record:
        """Return a TXT record of at most 255 bytes."""
        octets = text.encode()
        return cls(RecordType.TXT, bytes([len(octets)]) + octets)

    @classmethod
    def service(cls, port: int, target: str, weight: int = 100) -> Record:
        """Return an SRV record."""
        return cls(RecordType.SRV, struct.pack("!3H", 0, weight, port) + encode_name(target))


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
        if addition == RecordType.OPT:
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
        (encode_name(record.owner) if record.owner else struct.pack("!H", _POINTER_TO_QUESTION))
        + _RECORD.pack(record.kind, _CLASS_IN, seconds, len(record.data))
        + record.data
        for record in records
    ]
    authorities = [_start_of_authority(authority, seconds)] if authority and not records else []
    additions = []
    if query.extended:
        additions = [b"\0" + _RECORD.pack(RecordType.OPT, _LARGEST_DATAGRAM, 0, 0)]
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


def ask(number: int, name: str, kind: int) -> bytes:
    """Encode a query for records of a name, to be answered by a server that resolves all names.

    Raises:
        ValueError: It is not a DNS name.
    """
    header = _HEADER.pack(number, _RECURSION_DESIRED, 1, 0, 0, 0)
    return header + encode_name(name) + _QUESTION.pack(kind, _CLASS_IN)


def is_truncated(message: bytes) -> bool:
    """Return whether an answer did not fit into its datagram."""
    return bool(int.from_bytes(message[2:4]) & _TRUNCATED)


def read_answers(message: bytes) -> tuple[Code, list[Record]]:
    """Read the answers of another server: its aliases and addresses, with their owners' names.

    Raises:
        MalformedError: It is not a DNS message.
    """
    try:
        _, flags, questions, answers, _, _ = _HEADER.unpack_from(message)
        at = _HEADER.size
        for _ in range(questions):
            at = _read_compressed(message, at)[1] + _QUESTION.size
        found = []
        for _ in range(answers):
            owner, at = _read_compressed(message, at)
            kind, _, _, length = _RECORD.unpack_from(message, at)
            at += _RECORD.size
            if kind == RecordType.CNAME:
                target, _ = _read_compressed(message, at)
                found.append(Record.alias(target)._replace(owner=owner))
            elif kind in {RecordType.A, RecordType.AAAA} and at + length <= len(message):
                found.append(Record(kind, message[at : at + length], owner))
            at += length
        code = flags & 0xF
        return Code(code) if code in set(Code) else Code.SERVER_FAILURE, found
    except (IndexError, struct.error, ValueError):
        raise MalformedError(None) from None


def _read_compressed(message: bytes, start: int) -> tuple[str, int]:
    """Read a name that may point to an earlier one; return it and its end.

    Raises:
        IndexError: It does not end in the message, or is too long.
        UnicodeDecodeError: It has other characters than ASCII.
    """
    labels: list[str] = []
    at, end, size = start, -1, 0
    while length := message[at]:
        if length >= _POINTER:
            end = at + 2 if end < 0 else end
            target = (length & ~_POINTER) << 8 | message[at + 1]
            if target >= at:  # a pointer forwards could lead round in circles
                raise IndexError
            at = target
            continue
        label = message[at + 1 : at + 1 + length]
        size += length + 1
        if length > _LONGEST_LABEL or len(label) < length or size > _LONGEST_NAME:
            raise IndexError
        labels.append(label.decode("ascii"))
        at += 1 + length
    return ".".join(labels), at + 1 if end < 0 else end


def refuse(message: bytes, code: Code) -> bytes:
    """Encode the answer to a message that `parse` rejected; `message` has a complete header."""
    number, flags = struct.unpack_from("!2H", message)
    kept = flags & (_OPCODE | _RECURSION_DESIRED)
    return _HEADER.pack(number, _RESPONSE | _RECURSION_AVAILABLE | kept | code, 0, 0, 0, 0)


def _start_of_authority(zone: str, seconds: int) -> bytes:
    """Encode the SOA record, which limits negative caching (RFC 2308)."""
    data = encode_name(f"ns.dns.{zone}") + encode_name(f"hostmaster.{zone}")
    data += struct.pack("!5I", 1, 7200, 1800, 86400, seconds)
    return encode_name(zone) + _RECORD.pack(RecordType.SOA, _CLASS_IN, seconds, len(data)) + data
