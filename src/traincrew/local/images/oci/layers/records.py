"""What was unpacked of a layer: a record of each entry, in a file beside the tree.

A later record of a path counts in place of an earlier one; all of them are of the archive's order,
but for directories, whose records come last.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, BinaryIO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Kind", "Record", "RecordWriter", "final_records", "read_records"]

_LENGTH = struct.Struct("<I")
_MAX_LENGTH = 16384


class Kind(IntEnum):
    """What an entry is; `REMOVED` for one that a later entry of the layer replaced."""

    REMOVED = 0
    FILE = 1
    HARD_LINK = 2
    SYMBOLIC_LINK = 3
    DIRECTORY = 4
    FIFO = 5
    WHITEOUT = 6


class Record(Struct, frozen=True, array_like=True, gc=False):
    """One entry.

    Attributes:
        kind: what it is.
        path: relative to the layer's root, which is empty.
        mode: permission bits, as they were set.
        uid, gid: owners in the image.
        size: bytes of a file.
        mtime: nanoseconds since 1970.
        check: of a file, the CRC-32 of its content; of a symbolic link, its target; of a hard link,
            the path of the other name; ``opaque`` of a directory that hides the one below.
        set_id: set-user-ID and set-group-ID bits of the image that were not set.
    """

    kind: Kind
    path: bytes
    mode: int
    uid: int
    gid: int
    size: int
    mtime: int
    check: bytes
    set_id: int = 0


class RecordWriter:
    """Writes records to a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._encode = msgspec.msgpack.Encoder().encode

    def write(self, record: Record) -> None:
        """Append a record.

        Raises:
            OSError: The disk is full, say.
        """
        data = self._encode(record)
        self._file.write(_LENGTH.pack(len(data)) + data)


def read_records(file: BinaryIO) -> Iterator[Record]:
    """Yield the records of a file.

    Raises:
        ValueError: It is damaged.
        OSError: It cannot be read.
    """
    decode = msgspec.msgpack.Decoder(Record).decode
    while head := file.read(_LENGTH.size):
        if len(head) != _LENGTH.size or (length := _LENGTH.unpack(head)[0]) > _MAX_LENGTH:
            raise ValueError("it is damaged")
        yield decode(file.read(length))


def final_records(file: BinaryIO) -> dict[bytes, Record]:
    """Return the records of a file that count, by path.

    That of a hard link is that of the other name.

    Raises:
        ValueError: It is damaged.
        OSError: It cannot be read.
    """
    expected: dict[bytes, Record] = {}
    for record in read_records(file):
        if record.kind is Kind.REMOVED:
            expected.pop(record.path, None)
        elif record.kind is Kind.HARD_LINK:
            if record.check not in expected:
                raise ValueError("it is damaged")
            expected[record.path] = replace(expected[record.check], path=record.path)
        else:
            expected[record.path] = record
    return expected
