"""The files of an archive of images, or of a directory in the layout of OCI, by their names.

Names are a stranger's: they are looked up, and no path is made of them.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import stat
from typing import TYPE_CHECKING, BinaryIO, Protocol

from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.layers.decompression import Decompression
from traincrew.local.images.oci.layers.headers import shown
from traincrew.local.images.oci.layers.limits import limits_of
from traincrew.local.images.oci.layers.tarfiles import Archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["ArchiveMembers", "DirectoryMembers", "Members"]

_MAX_MEMBERS = 100_000
_MAX_SIZE = 512 << 30
_MAX_LINKS = 10
"""Old versions of `docker save` store a layer once, and links to it."""
_FILE, _HARD, _SYMBOLIC = 0x30, 0x31, 0x32


class Members(Protocol):
    """The files of an archive or of a directory."""

    def has(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        ...

    def read(self, name: str, limit: int) -> bytes:
        """Return the content of a small file.

        Raises:
            ImageContentError: It is missing, or larger than the limit.
            OSError: It cannot be read.
        """
        ...

    def take(self, name: str) -> Path:
        """Return a file that may be removed.

        Raises:
            ImageContentError: It is missing.
            OSError: It cannot be read or copied.
        """
        ...


class ArchiveMembers:
    """The files of a tar archive, plain or compressed, unpacked under numbers into a directory."""

    def __init__(self, file: BinaryIO, directory: Path, progress: Callable[[int], None]) -> None:
        """Read an archive from its start to its end.

        Args:
            file: need not be seekable.
            directory: an empty one.
            progress: is given the number of bytes that have been read so far.

        Raises:
            ImageContentError: It is no archive, or cut.
            OSError: It cannot be read, or the disk is full.
        """
        self._directory = directory
        self._files: dict[str, Path] = {}
        self._links: dict[str, str] = {}
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            limits = limits_of(fd)
        finally:
            os.close(fd)
        limits = type(limits)(size=_MAX_SIZE, free=limits.free)
        try:
            with Decompression(file, limits) as stream:
                archive = Archive(_reporting(stream, progress))
                self._read_all(archive)
        except ImageContentError as error:
            # The messages are those of layers.
            raise ImageContentError(str(error).replace("a layer", "the archive", 1)) from None
        if not stream.packed:
            raise ImageContentError("it is empty: what should have written it has failed")

    def has(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        return self._find(name) is not None

    def read(self, name: str, limit: int) -> bytes:
        """Return the content of a small file: see `Members`."""
        return _read(self._found(name), name, limit)

    def take(self, name: str) -> Path:
        """Return a file that may be removed: see `Members`."""
        return self._found(name)

    def _read_all(self, archive: Archive) -> None:
        for number, entry in enumerate(archive.entries()):
            if number >= _MAX_MEMBERS:
                raise ImageContentError(f"the archive has more than {_MAX_MEMBERS} files")
            name = _normal(os.fsdecode(entry.name))
            if entry.type == _FILE and entry.parts is None:
                path = self._directory / str(number)
                with path.open("xb") as file:
                    for view in archive.content(entry.stored):
                        file.write(view)
                self._links.pop(name, None)
                self._files[name] = path
            elif entry.type in {_HARD, _SYMBOLIC}:
                target = os.fsdecode(entry.link)
                if entry.type == _SYMBOLIC:
                    target = posixpath.join(posixpath.dirname(name), target)
                self._files.pop(name, None)
                self._links[name] = _normal(target)
            elif entry.type == _FILE:
                raise ImageContentError(f"{shown(entry.name)}: a sparse file in an archive")

    def _find(self, name: str) -> Path | None:
        name = _normal(name)
        for _ in range(_MAX_LINKS):
            if name not in self._links:
                break
            name = self._links[name]
        return self._files.get(name)

    def _found(self, name: str) -> Path:
        path = self._find(name)
        if path is None:
            raise ImageContentError(f"the archive has no file {name[:200]}, which it refers to")
        return path


class DirectoryMembers:
    """The files of a directory in the layout of OCI."""

    def __init__(self, source: Path, directory: Path) -> None:
        """Read a directory.

        Args:
            source: the directory, which stays as it is.
            directory: an empty one, for copies.
        """
        self._source = source
        self._directory = directory

    def has(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        return self._path(name).is_file()

    def read(self, name: str, limit: int) -> bytes:
        """Return the content of a small file: see `Members`."""
        return _read(self._path(name), name, limit)

    def take(self, name: str) -> Path:
        """Return a copy of a file: see `Members`."""
        copy = self._directory / str(len(list(self._directory.iterdir())))
        with _open(self._path(name), name) as file, copy.open("xb") as written:
            shutil.copyfileobj(file, written, 1 << 20)
        return copy

    def _path(self, name: str) -> Path:
        return self._source / _normal(name)


def _read(path: Path, name: str, limit: int) -> bytes:
    with _open(path, name) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ImageContentError(f"{name[:200]} has more than {limit >> 20} MiB")
    return data


def _open(path: Path, name: str) -> BinaryIO:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ImageContentError(f"there is no file {name[:200]}, which is referred to") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ImageContentError(f"{name[:200]} is no file")
    return os.fdopen(fd, "rb")


def _normal(name: str) -> str:
    """Return a name relative to the top, which ``..`` does not leave."""
    return posixpath.normpath("/" + name).lstrip("/")


def _reporting(stream: Decompression, progress: Callable[[int], None]) -> Callable[[], bytes]:
    def piece() -> bytes:
        data = stream.piece()
        progress(stream.packed)
        return data

    return piece
