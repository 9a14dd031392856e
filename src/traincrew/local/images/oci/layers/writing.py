"""Writing the content, the times and the whiteouts of a layer."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.local.images.oci.layers.headers import Entry
    from traincrew.local.images.oci.layers.tarfiles import Archive

__all__ = ["is_whiteout", "make_whiteout", "set_time", "set_time_of", "write_content"]

_ZEROS = bytes(1024 * 1024)
_LATEST = (1 << 31) * 1_000_000_000
"""In nanoseconds since 1970, in 2038; ext4 ends in 2446."""


def make_whiteout(parent: int, name: bytes) -> None:
    """Make the mark of overlayfs for a deleted entry.

    Raises:
        OSError: The kernel or the file system refuses it.
    """
    try:
        os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=parent)
    except PermissionError as error:
        raise PermissionError(
            error.errno,
            "an image deletes files of its lower layers, and this kernel lets only root mark that "
            "(others since Linux 5.8)",
        ) from error


def is_whiteout(found: os.stat_result) -> bool:
    """Return whether an entry marks a deleted one."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def set_time_of(fd: int, entry: Entry) -> None:
    """Set the time of change of an open file; the entry gets the one that was stored."""
    os.utime(fd, ns=(entry.mtime, entry.mtime))
    if not _is_stored(entry.mtime):
        entry.mtime = os.fstat(fd).st_mtime_ns


def set_time(parent: int, name: bytes, entry: Entry) -> None:
    """Set the time of change of what cannot be opened; otherwise as `set_time_of`."""
    os.utime(name, ns=(entry.mtime, entry.mtime), dir_fd=parent, follow_symlinks=False)
    if not _is_stored(entry.mtime):
        entry.mtime = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mtime_ns


def _is_stored(mtime: int) -> bool:
    """Return whether all file systems store a time; otherwise it becomes one that they do."""
    return 0 <= mtime < _LATEST


def write_content(fd: int, entry: Entry, archive: Archive) -> int:
    """Write a file; return the CRC-32 of its content, holes included.

    Raises:
        ImageContentError: The archive is cut.
        OSError: It cannot be written.
    """
    from isal.isal_zlib import crc32

    checksum = 0
    if entry.parts is None:
        for view in archive.content(entry.stored):
            checksum = crc32(view, checksum)
            _write_all(fd, view)
        return checksum
    os.ftruncate(fd, entry.size)
    end = 0
    for offset, length in (*entry.parts, (entry.size, 0)):
        for start in range(end, offset, len(_ZEROS)):
            checksum = crc32(_ZEROS[: offset - start], checksum)
        os.lseek(fd, offset, os.SEEK_SET)
        for view in archive.content(length):
            checksum = crc32(view, checksum)
            _write_all(fd, view)
        end = offset + length
    return checksum


def _write_all(fd: int, view: memoryview) -> None:
    written = os.write(fd, view)
    while written < len(view):
        written += os.write(fd, view[written:])
