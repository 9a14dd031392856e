"""How much a layer may be: what a stranger packed must not fill memory, disk or a day."""

from __future__ import annotations

import errno
import os

from msgspec import Struct

from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.documents import MAX_LAYER_SIZE

__all__ = ["Limits", "gibibytes", "limits_of"]

_RESERVE = 256 << 20
"""Bytes of a file system that images leave free."""


class Limits(Struct, frozen=True):
    """Limits of one layer.

    Attributes:
        size: bytes of the uncompressed archive, and of its files with the holes of sparse ones.
        free: bytes that the file system has room for.
        ratio: of uncompressed to compressed bytes. gzip shrinks zeros to 1/1,030, zstd to 1/30,000;
            programs and data rarely to less than 1/10.
        ratio_from: uncompressed bytes up to which any ratio is accepted.
        entries: of the archive.
        directories: among them; they are remembered until the end.
    """

    size: int = MAX_LAYER_SIZE
    free: int = 1 << 62
    ratio: int = 250
    ratio_from: int = 1 << 30
    entries: int = 2_000_000
    directories: int = 500_000

    def check_size(self, unpacked: int, packed: int) -> None:
        """Check how much has been unpacked.

        Args:
            unpacked: bytes so far.
            packed: bytes that they were compressed to.

        Raises:
            ImageContentError: It is too much.
            OSError: It is more than there is room for (``ENOSPC``).
        """
        self.check_files(unpacked)
        if unpacked > self.ratio_from and unpacked > self.ratio * packed:
            raise ImageContentError(
                f"a layer unpacks to more than {self.ratio} times its size, as no honest image does"
            )
        if unpacked > self.free:
            raise OSError(
                errno.ENOSPC,
                f"{os.strerror(errno.ENOSPC)}: a layer needs more than {gibibytes(self.free)}, and "
                f"{gibibytes(_RESERVE)} must stay free",
            )

    def check_files(self, size: int) -> None:
        """Check the bytes of all files so far, with the holes of sparse ones.

        Raises:
            ImageContentError: They are too many.
        """
        if size > self.size:
            raise ImageContentError(
                f"a layer unpacks to more than {gibibytes(self.size)}, the most that is accepted"
            )


def limits_of(directory: int) -> Limits:
    """Return the limits for what is unpacked below a directory, given by its descriptor.

    Raises:
        OSError: Its file system cannot be asked.
    """
    found = os.fstatvfs(directory)
    return Limits(free=max(found.f_bavail * found.f_frsize - _RESERVE, 0))


def gibibytes(size: int) -> str:
    """Return a number of bytes for a message."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift:
            number = size / (1 << shift)
            return (
                f"{number:.0f} {unit}"
                if number >= 10 or number % 1 == 0
                else f"{number:.1f} {unit}"
            )
    return f"{size} bytes"
