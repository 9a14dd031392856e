"""The entries of a tar archive: ustar, PAX, GNU with long names and sparse files.

Written for archives of strangers, and for speed: Python's ``tarfile`` takes five times as long for
a header, and reads what no layer has. What is accepted is what Go's ``archive/tar`` accepts, which
all container engines read layers by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.layers.headers import (
    MAX_TIME,
    Entry,
    decimal,
    number,
    parse_header,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Archive"]

BLOCK = 512
_MAX_RECORDS = 1024 * 1024
"""Bytes of the PAX records of one entry, as in Go."""
_MAX_PATH = 4095
_MAX_SPARSE = 100_000
"""Parts of one sparse file."""
_HEADER_ONLY = frozenset(b"123456")
_REGULAR = frozenset(b"07S\0")


class Archive:
    """A tar archive that is read once, from its start to its end."""

    def __init__(self, piece: Callable[[], bytes]) -> None:
        """Read an archive from a function that returns its next bytes, none at its end."""
        self._piece = piece
        self._view = memoryview(b"")
        self._position = 0
        self._left = 0
        self._padding = 0

    def entries(self) -> Iterator[Entry]:
        """Yield the entries; what of a file's content is not read is skipped.

        Raises:
            ImageContentError: It is no tar archive, or cut.
        """
        records: dict[bytes, bytes] = {}
        sparse: list[tuple[int, int]] = []
        name = link = None
        while True:
            self._skip(self._left + self._padding)
            self._left = self._padding = 0
            block = self._header()
            if not block:
                break
            entry = parse_header(block)
            flag = entry.type
            if flag in b"xX":
                records, sparse = _records(self._special(entry, _MAX_RECORDS))
                continue
            if flag == 0x67:  # "g": records for all that follow, which no engine heeds
                self._special(entry, _MAX_RECORDS)
                continue
            if flag in b"LK":
                text = self._special(entry, _MAX_PATH + 1).partition(b"\0")[0]
                if flag == 0x4C:
                    name = text
                else:
                    link = text
                continue
            if name is not None:
                entry.name = name
            if link is not None:
                entry.link = link
            if records:
                _apply(entry, records)
            self._find_content(entry, block, records, sparse)
            records, sparse, name, link = {}, [], None, None
            yield entry
        if records or name is not None or link is not None:
            raise ImageContentError("a layer is cut: a long name in it has no entry")
        self._drain()

    def content(self, length: int) -> Iterator[memoryview]:
        """Yield the next `length` bytes of the current entry.

        Raises:
            ImageContentError: The archive is cut.
        """
        self._left -= length
        while length:
            view, position = self._view, self._position
            if position >= len(view):
                self._refill()
                continue
            taken = view[position : position + length]
            self._position += len(taken)
            length -= len(taken)
            yield taken

    def _find_content(
        self,
        entry: Entry,
        block: bytes,
        records: dict[bytes, bytes],
        sparse: list[tuple[int, int]],
    ) -> None:
        if entry.type in _HEADER_ONLY:
            entry.size = entry.stored = 0
            return
        self._left = entry.stored
        self._padding = -entry.stored % BLOCK
        if entry.type not in _REGULAR:
            return
        if entry.type == 0x53:
            entry.parts = self._old_sparse(block)
            entry.size = number(block[483:495], entry.name)
        elif records.get(b"GNU.sparse.major") == b"1":
            entry.parts = self._sparse_map(entry)
            entry.stored = self._left
        elif sparse or b"GNU.sparse.map" in records:
            entry.parts = sparse or _listed(records[b"GNU.sparse.map"], entry.name)
        elif entry.name.endswith(b"/"):
            entry.type = 0x35  # a directory, in the format before POSIX
            return
        if entry.parts is not None:
            _check_sparse(entry)
        else:
            entry.size = entry.stored  # a size of sparse files alone makes none
        entry.type = 0x30

    def _header(self) -> bytes:
        """Return the block of the next header, or none at the end of the archive."""
        view, position = self._view, self._position
        if position + BLOCK <= len(view):
            self._position = position + BLOCK
            block = bytes(view[position : position + BLOCK])
        else:
            block = self._bytes(BLOCK, may_end=True)
        if not block or not block.strip(b"\0"):
            return b""
        return block

    def _bytes(self, length: int, *, may_end: bool = False) -> bytes:
        found: list[bytes] = []
        missing = length
        while missing:
            view, position = self._view, self._position
            if position >= len(view):
                piece = self._piece()
                if not piece:
                    if may_end and missing == length:
                        return b""
                    raise ImageContentError("a layer is cut: its tar archive ends in the middle")
                self._view, self._position = memoryview(piece), 0
                continue
            taken = bytes(view[position : position + missing])
            self._position += len(taken)
            missing -= len(taken)
            found.append(taken)
        return b"".join(found)

    def _refill(self) -> None:
        piece = self._piece()
        if not piece:
            raise ImageContentError("a layer is cut: its tar archive ends in the middle of a file")
        self._view, self._position = memoryview(piece), 0

    def _skip(self, length: int) -> None:
        while length:
            if self._position >= len(self._view):
                self._refill()
            step = min(length, len(self._view) - self._position)
            self._position += step
            length -= step

    def _drain(self) -> None:
        """Read what follows the end of the archive: it counts into the digests."""
        while self._piece():
            pass
        self._view = memoryview(b"")

    def _special(self, entry: Entry, limit: int) -> bytes:
        """Return the content of an entry that describes the next one."""
        if entry.stored > limit:
            raise ImageContentError(
                f'a layer has a name or attributes of {entry.stored} bytes (type "'
                f'{chr(entry.type)}"); at most {limit} are accepted'
            )
        content = self._bytes(entry.stored)
        self._bytes(-entry.stored % BLOCK)
        return content

    def _old_sparse(self, block: bytes) -> list[tuple[int, int]]:
        parts: list[tuple[int, int]] = []
        fields, more = block[386:482], block[482]
        while True:
            for start in range(0, len(fields) - 23, 24):
                if not fields[start : start + 24].strip(b"\0 "):
                    break
                parts.append(
                    (
                        number(fields[start : start + 12], b""),
                        number(fields[start + 12 : start + 24], b""),
                    )
                )
            if not more:
                return parts
            if len(parts) > _MAX_SPARSE:
                raise ImageContentError(f"a sparse file has more than {_MAX_SPARSE} parts")
            extension = self._bytes(BLOCK)
            fields, more = extension[:504], extension[504]

    def _sparse_map(self, entry: Entry) -> list[tuple[int, int]]:
        """Read the map at the start of a sparse file's content (PAX, format 1.0)."""
        text = b""
        numbers: list[int] = []
        wanted = None
        while wanted is None or len(numbers) < wanted:
            line, newline, rest = text.partition(b"\n")
            if not newline:
                if self._left < BLOCK or len(text) > BLOCK:
                    raise ImageContentError(f"{shown(entry.name)}: its map of holes is damaged")
                text += self._bytes(BLOCK)
                self._left -= BLOCK
                continue
            text = rest
            value = decimal(line, entry.name)
            if wanted is None:
                if value > _MAX_SPARSE:
                    raise ImageContentError(f"a sparse file has more than {_MAX_SPARSE} parts")
                wanted = 2 * value
            else:
                numbers.append(value)
        return list(zip(numbers[::2], numbers[1::2], strict=True))


def _records(data: bytes) -> tuple[dict[bytes, bytes], list[tuple[int, int]]]:
    """Return PAX records, and the parts of a sparse file, whose keys repeat (format 0.0)."""
    records: dict[bytes, bytes] = {}
    sparse: list[tuple[int, int]] = []
    position = 0
    while position < len(data):
        digits, space, _ = data[position : position + 10].partition(b" ")
        length = int(digits) if space and digits.isdigit() else 0
        record = data[position + len(digits) + 1 : position + length]
        key, equals, value = record[:-1].partition(b"=")
        if not equals or not key or record[-1:] != b"\n" or position + length > len(data):
            raise ImageContentError("a layer has PAX records that are damaged")
        position += length
        if key == b"GNU.sparse.offset":
            sparse.append((decimal(value, key), 0))
        elif key == b"GNU.sparse.numbytes" and sparse:
            sparse[-1] = (sparse[-1][0], decimal(value, key))
        else:
            records[key] = value
    if len(sparse) > _MAX_SPARSE:
        raise ImageContentError(f"a sparse file has more than {_MAX_SPARSE} parts")
    return records, sparse


def _apply(entry: Entry, records: dict[bytes, bytes]) -> None:
    for key, value in records.items():
        if key in {b"path", b"linkpath"}:
            if b"\0" in value:
                raise ImageContentError(f"{shown(value)}: a name has a NUL byte")
            if key == b"path":
                entry.name = value or entry.name
            else:
                entry.link = value or entry.link
        elif key == b"size":
            entry.size = entry.stored = decimal(value, entry.name)
        elif key == b"uid":
            entry.uid = decimal(value, entry.name)
        elif key == b"gid":
            entry.gid = decimal(value, entry.name)
        elif key == b"mtime":
            entry.mtime = _time(value, entry.name)
        elif key.startswith(b"SCHILY.xattr."):
            if entry.attributes is None:
                entry.attributes = {}
            entry.attributes[key[13:]] = value
    name = records.get(b"GNU.sparse.name")
    if name:
        entry.name = name
    for key in (b"GNU.sparse.size", b"GNU.sparse.realsize"):
        if key in records:
            entry.size = decimal(records[key], entry.name)


def _time(text: bytes, name: bytes) -> int:
    seconds, _, fraction = text.partition(b".")
    negative = seconds.startswith(b"-")
    nanoseconds = int(fraction[:9].ljust(9, b"0")) if fraction.isdigit() else 0
    whole = decimal(seconds.lstrip(b"-") or b"0", name)
    found = min(whole, MAX_TIME) * 1_000_000_000 + nanoseconds
    return max(-found, -(1 << 31) * 1_000_000_000) if negative else found


def _listed(text: bytes, name: bytes) -> list[tuple[int, int]]:
    numbers = [decimal(value, name) for value in text.split(b",")]
    if len(numbers) % 2 or len(numbers) > 2 * _MAX_SPARSE:
        raise ImageContentError(f"{shown(name)}: its map of holes is damaged")
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _check_sparse(entry: Entry) -> None:
    end = total = 0
    for offset, length in entry.parts or ():
        if offset < end or offset + length > entry.size:
            raise ImageContentError(f"{shown(entry.name)}: its map of holes is wrong")
        end = offset + length
        total += length
    if total != entry.stored:
        raise ImageContentError(f"{shown(entry.name)}: its map of holes is wrong")
