"""Headers of tar entries, in the formats of POSIX (ustar), GNU and before."""

from __future__ import annotations

import struct

from traincrew.local.images.errors import ImageContentError

__all__ = ["MAX_TIME", "Entry", "decimal", "number", "parse_header", "shown"]

_HEADER = struct.Struct("100s8s8s8s12s12s8sc100s8s32s32s8s8s155s12s")
MAX_TIME = (1 << 34) - 1
"""Seconds since 1970 that file systems can store."""


def shown(name: bytes) -> str:
    """Return a name for messages; what would control a terminal is escaped."""
    text = name.decode("utf-8", "backslashreplace")
    if len(text) > 200:
        text = f"{text[:100]}…{text[-60:]}"
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


class Entry:
    """One entry of an archive.

    Attributes:
        name: as it is in the archive.
        type: the flag of its header: ``0`` for a file, ``1`` hard link, ``2`` symbolic link, ``3``
            and ``4`` devices, ``5`` directory, ``6`` FIFO.
        mode: permission bits.
        uid, gid: its owners.
        size: bytes of a file, holes included.
        stored: bytes in the archive.
        mtime: nanoseconds since 1970.
        link: what a link refers to.
        attributes: extended attributes.
        parts: offset and length of what is stored of a sparse file.
    """

    __slots__ = (
        "attributes", "gid", "link", "mode", "mtime", "name", "parts", "size", "stored", "type",
        "uid",
    )  # fmt: skip

    name: bytes
    type: int
    mode: int
    uid: int
    gid: int
    size: int
    stored: int
    mtime: int
    link: bytes
    attributes: dict[bytes, bytes] | None
    parts: list[tuple[int, int]] | None


def parse_header(block: bytes) -> Entry:
    """Read the block of a header.

    Raises:
        ImageContentError: It is none.
    """
    (
        name, mode, uid, gid, size, mtime, checksum, flag, link, magic, _, _, _, _, prefix, last,
    ) = _HEADER.unpack(block)  # fmt: skip
    found = sum(block) - sum(checksum) + 256
    if _octal(checksum) != found:
        # Before POSIX some programs added up signed bytes.
        signed = found - 256 * sum(byte > 127 for byte in block[:148] + block[156:])
        if _octal(checksum) != signed:
            raise ImageContentError("a layer is no tar archive: the checksum of a header is wrong")
    entry = Entry()
    name = name.partition(b"\0")[0]
    if magic == b"ustar\x0000":
        if last[8:] == b"tar\0":
            prefix = prefix[:131]
        prefix = prefix.partition(b"\0")[0]
        if prefix:
            name = prefix + b"/" + name
    entry.name = name
    entry.type = flag[0]
    entry.mode = number(mode, name) & 0o7777
    entry.uid = number(uid, name)
    entry.gid = number(gid, name)
    entry.size = entry.stored = number(size, name)
    entry.mtime = min(max(_signed(mtime, name), -(1 << 31)), MAX_TIME) * 1_000_000_000
    entry.link = link.partition(b"\0")[0]
    entry.attributes = None
    entry.parts = None
    return entry


def _octal(field: bytes) -> int:
    text = field.strip(b" \0")
    try:
        # Python's own would accept signs and underscores.
        return int(text, 8) if text.isdigit() else (0 if not text else -1)
    except ValueError:
        return -1


def _signed(field: bytes, name: bytes) -> int:
    """Return a number of a header: octal digits, or binary where they would not do."""
    first = field[0]
    if first & 0x80:
        found = int.from_bytes(field, "big")
        bits = 8 * len(field)
        return found - (1 << bits if first & 0x40 else 1 << (bits - 1))
    text = field.partition(b"\0")[0].strip(b" ")
    if not text:
        return 0
    found = _octal(text)
    if found < 0:
        raise ImageContentError(f"{shown(name)}: a number in its tar header is wrong")
    return found


def number(field: bytes, name: bytes) -> int:
    """Return a number of a header that is not negative.

    Raises:
        ImageContentError: It is none.
    """
    found = _signed(field, name)
    if not 0 <= found < 1 << 62:
        raise ImageContentError(f"{shown(name)}: a number in its tar header is out of range")
    return found


def decimal(text: bytes, name: bytes) -> int:
    """Return a decimal number of an entry's attributes.

    Raises:
        ImageContentError: It is none.
    """
    if not text.isdigit() or len(text) > 18:
        raise ImageContentError(f"{shown(name)}: a number of its attributes is wrong")
    return int(text)
