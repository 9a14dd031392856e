"""Is a layer still what was unpacked? Every entry is compared with its record."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

from traincrew.local.images.manifest import Damage
from traincrew.local.images.oci.layers import Kind, Owners, Record, final_records
from traincrew.local.images.oci.opaque import is_opaque

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["damage_of"]

_PIECE = 1024 * 1024
_MAX_DAMAGES = 10_000
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def damage_of(tree: Path, records: Path, owners: Owners) -> list[Damage]:
    """Compare every entry of an unpacked layer with its record.

    Reading takes a second for each gigabyte or two. Up to 10,000 differences are found.

    Args:
        tree: the directory.
        records: the file of its records.
        owners: as it was unpacked.

    Raises:
        OSError: It cannot be read.
    """
    try:
        with records.open("rb") as file:
            expected = final_records(file)
    except FileNotFoundError:
        return [Damage("missing", records.name)]
    except ValueError:
        return [Damage("changed", records.name, "content")]
    found: list[Damage] = []
    parent = os.open(tree.parent, _OPEN | os.O_DIRECTORY)
    try:
        name = os.fsencode(tree.name)
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        with _opened(parent, name, status, os.O_DIRECTORY) as root:
            _Comparison(expected, owners, found).directory(root, b"", status)
    except FileNotFoundError:
        return [Damage("missing", ".")]
    finally:
        os.close(parent)
    found += [Damage("missing", os.fsdecode(path)) for path in sorted(expected)][:_MAX_DAMAGES]
    return sorted(found, key=lambda one: one.path)


class _Comparison:
    def __init__(
        self, expected: dict[bytes, Record], owners: Owners, damages: list[Damage]
    ) -> None:
        self._expected = expected
        self._owned = owners == "true"
        self._damages = damages

    def directory(self, fd: int, path: bytes, status: os.stat_result) -> None:
        record = self._expected.pop(path, None)
        if record is not None:
            self._compare(path, record, status, fd)
        with os.scandir(fd) as entries:
            names = sorted(os.fsencode(entry.name) for entry in entries)
        for name in names:
            if len(self._damages) < _MAX_DAMAGES:
                self._entry(fd, name, path + b"/" + name if path else name)

    def _entry(self, parent: int, name: bytes, path: bytes) -> None:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        record = self._expected.get(path)
        if record is None:
            self._damages.append(Damage("added", os.fsdecode(path)))
            return
        if stat.S_ISDIR(status.st_mode) and record.kind is Kind.DIRECTORY:
            with _opened(parent, name, status, os.O_DIRECTORY) as fd:
                self.directory(fd, path, status)
            return
        del self._expected[path]
        if record.kind is Kind.DIRECTORY:
            self._changed(path, "type")
        elif record.kind is Kind.SYMBOLIC_LINK and stat.S_ISLNK(status.st_mode):
            target = os.fsencode(os.readlink(name, dir_fd=parent))
            if target != record.check:
                self._changed(path, "target")
            else:
                self._compare(path, record, status, -1)
        elif record.kind is Kind.FILE and stat.S_ISREG(status.st_mode):
            self._file(parent, name, path, record, status)
        elif not _is_kind(record, status):
            self._changed(path, "type")
        elif record.kind is Kind.FIFO:
            self._compare(path, record, status, -1)

    def _file(
        self, parent: int, name: bytes, path: bytes, record: Record, status: os.stat_result
    ) -> None:
        if status.st_size != record.size:
            self._changed(path, f"size {status.st_size}, was {record.size}")
            return
        with _opened(parent, name, status, 0) as fd:
            if _checksum(fd) != record.check:
                self._changed(path, "content")
                return
        self._compare(path, record, status, -1)

    def _compare(self, path: bytes, record: Record, status: os.stat_result, fd: int) -> None:
        mode = stat.S_IMODE(status.st_mode)
        if mode != record.mode and record.kind is not Kind.SYMBOLIC_LINK:
            self._changed(path, f"mode {mode:04o}, was {record.mode:04o}")
        elif self._owned and (status.st_uid, status.st_gid) != (record.uid, record.gid):
            self._changed(
                path,
                f"owner {status.st_uid}:{status.st_gid}, was {record.uid}:{record.gid}",
            )
        elif record.kind is not Kind.DIRECTORY and status.st_mtime_ns != record.mtime:
            self._changed(path, "time of change")
        elif record.kind is Kind.DIRECTORY and path and record.check and not is_opaque(fd):
            self._changed(path, "no longer opaque")

    def _changed(self, path: bytes, what: str) -> None:
        self._damages.append(Damage("changed", os.fsdecode(path) or ".", what))


@contextlib.contextmanager
def _opened(parent: int, name: bytes, status: os.stat_result, flags: int) -> Iterator[int]:
    """Open an entry, also where this user's own mode forbids it."""
    changed = False
    try:
        fd = os.open(name, _OPEN | flags, dir_fd=parent)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent)
        changed = True
        fd = os.open(name, _OPEN | flags, dir_fd=parent)
    try:
        yield fd
    finally:
        if changed:
            os.fchmod(fd, stat.S_IMODE(status.st_mode))
        os.close(fd)


def _is_kind(record: Record, status: os.stat_result) -> bool:
    mode = status.st_mode
    if record.kind is Kind.WHITEOUT:
        return stat.S_ISCHR(mode) and status.st_rdev == 0
    return record.kind is Kind.FIFO and stat.S_ISFIFO(mode)


def _checksum(fd: int) -> bytes:
    from isal.isal_zlib import crc32

    checksum = 0
    while data := os.read(fd, _PIECE):
        checksum = crc32(data, checksum)
    return checksum.to_bytes(4, "big")
