"""The directories of a layer that is being unpacked.

Only the archive changes the tree, and every directory in it was made here: what is known decides
where a name leads, and the kernel is asked only for what is no directory.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.layers.headers import shown
from traincrew.local.images.oci.opaque import make_opaque

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Directories", "Directory", "exists", "split"]

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_PATH = 4095
_MAX_NAME = 255
_MAX_DEPTH = 256
"""Directories above an entry; of real images, node's packages have some 40."""
_MAX_LINKS = 40
"""Of one name, as in the kernel."""
_MAX_OPEN = 64
_MAX_RESOLVED = 2000
_MAX_BYTES = 64 << 20
"""Of the paths of all directories, which are kept in memory."""


class Directory:
    """What becomes of a directory when all of its entries are there.

    Attributes:
        described: whether the layer has an entry for it, or only for what is in it.
        mode: permission bits.
        mtime: nanoseconds since 1970; None for now.
        uid, gid: its owners.
        opaque: whether it hides the one below.
    """

    __slots__ = ("described", "gid", "mode", "mtime", "opaque", "uid")

    def __init__(self) -> None:
        self.described = False
        self.mode = 0o755
        self.mtime: int | None = None
        self.uid = 0
        self.gid = 0
        self.opaque = False


class Directories:
    """The directories below a root, by their path: never through a symbolic link."""

    def __init__(self, root: int, limit: int) -> None:
        """Begin with an empty directory.

        Args:
            root: its descriptor, which stays the caller's.
            limit: how many there may be.
        """
        self._root = root
        self._limit = limit
        self._bytes = 0
        self._known: dict[bytes, Directory] = {b"": Directory()}
        # Least recently used first.
        self._open: dict[bytes, int] = {}
        self._resolved: dict[bytes, bytes] = {}

    @property
    def is_opaque(self) -> bool:
        """Whether the root hides all layers below."""
        return self._known[b""].opaque

    def close(self) -> None:
        """Close all directories but the root."""
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()

    def open(self, components: list[bytes], name: bytes) -> tuple[int, bytes]:
        """Return a directory and its path; it is made where it is missing.

        Args:
            components: of its name in the archive.
            name: of the entry, for messages.

        Raises:
            ImageContentError: It leads through something else, or too deep.
            OSError: It cannot be made.
        """
        path = self._resolve(components, name, make=True)
        assert path is not None
        return self.reopen(path), path

    def find(self, components: list[bytes], name: bytes) -> tuple[int, bytes] | None:
        """Return a directory and its path if it exists.

        Raises:
            ImageContentError: As of `open`.
        """
        path = self._resolve(components, name, make=False)
        return None if path is None else (self.reopen(path), path)

    def reopen(self, path: bytes) -> int:
        """Return the descriptor of a known directory, open until 60 others have been used.

        Raises:
            OSError: It cannot be opened.
        """
        if not path:
            return self._root
        fd = self._open.pop(path, None)
        if fd is None:
            fd = self._opened(path)
            while len(self._open) >= _MAX_OPEN:
                os.close(self._open.pop(next(iter(self._open))))
        self._open[path] = fd
        return fd

    def describe(self, path: bytes, mode: int, mtime: int, uid: int, gid: int) -> None:
        """Remember what a directory of the archive is to become."""
        found = self._known[path]
        found.described = True
        found.mode, found.mtime, found.uid, found.gid = mode, mtime, uid, gid

    def add(self, parent: int, name: bytes, path: bytes) -> None:
        """Make a directory.

        Raises:
            ImageContentError: There are too many.
            OSError: It cannot be made.
        """
        self._bytes += len(path)
        if len(self._known) >= self._limit or self._bytes > _MAX_BYTES:
            raise ImageContentError(f"a layer has more than {len(self._known)} directories")
        os.mkdir(name, 0o700, dir_fd=parent)
        self._known[path] = Directory()

    def is_known(self, path: bytes) -> bool:
        """Return whether there is a directory of this path."""
        return path in self._known

    def set_opaque(self, path: bytes) -> None:
        """Let a directory hide those of the layers below.

        Raises:
            OSError: The file system keeps no attributes.
        """
        self._known[path].opaque = True
        if not path:
            return  # overlayfs reads no attribute of a root: there the layers below are left out
        make_opaque(self.reopen(path))

    def remove(
        self, parent: int, name: bytes, path: bytes, removed: Callable[[bytes], None]
    ) -> None:
        """Remove an entry with all that is in it.

        Args:
            parent: descriptor of its directory.
            name: its name there.
            path: its path.
            removed: the path of each entry that was removed is passed to it.

        Raises:
            OSError: It cannot be removed.
        """
        self._resolved.clear()
        removed(path)
        if path not in self._known:
            os.unlink(name, dir_fd=parent)
            return
        fd = os.open(name, _OPEN, dir_fd=parent)
        try:
            for child in os.listdir(fd):  # noqa: PTH208 - by its descriptor
                below = os.fsencode(child)
                self.remove(fd, below, path + b"/" + below, removed)
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=parent)
        del self._known[path]
        self._bytes -= len(path)
        opened = self._open.pop(path, None)
        if opened is not None:
            os.close(opened)

    def described(self) -> Iterator[tuple[bytes, Directory]]:
        """Yield all directories, those within another one before it."""
        for path in sorted(self._known, reverse=True):
            yield path, self._known[path]

    def _opened(self, path: bytes) -> int:
        components = path.split(b"/")
        fd, start = self._root, 0
        for count in range(len(components) - 1, 0, -1):
            found = self._open.get(b"/".join(components[:count]))
            if found is not None:
                fd, start = found, count
                break
        own = -1
        try:
            for component in components[start:]:
                fd = os.open(component, _OPEN, dir_fd=fd)
                if own >= 0:
                    os.close(own)
                own = fd
        except BaseException:
            if own >= 0:
                os.close(own)
            raise
        return fd

    def _resolve(self, components: list[bytes], name: bytes, *, make: bool) -> bytes | None:
        key = b"/".join(components)
        if key in self._known:
            return key
        path = self._resolved.get(key)
        if path is None:
            path = self._followed(components, name, make=make)
            if path is not None:
                if len(self._resolved) >= _MAX_RESOLVED:
                    self._resolved.clear()
                self._resolved[key] = path
        return path

    def _followed(self, components: list[bytes], name: bytes, *, make: bool) -> bytes | None:
        """Follow a name as a container's kernel would, with the layer as its whole root."""
        place: list[bytes] = []
        rest = list(reversed(components))
        links = 0
        while rest:
            component = rest.pop()
            if component in {b"", b"."}:
                continue
            if component == b"..":
                del place[-1:]
                continue
            if component.startswith(b".wh."):
                raise ImageContentError(f"{shown(name)}: an entry below a whiteout")
            parent = b"/".join(place)
            path = parent + b"/" + component if parent else component
            if path in self._known:
                place.append(component)
                continue
            fd = self.reopen(parent)
            found = exists(fd, component)
            if found is not None and stat.S_ISLNK(found.st_mode):
                links += 1
                if links > _MAX_LINKS:
                    raise ImageContentError(f"{shown(name)}: symbolic links that lead in a circle")
                target = os.fsencode(os.readlink(component, dir_fd=fd))
                if target.startswith(b"/"):
                    place = []
                rest.extend(reversed(target.split(b"/")))
                continue
            if not make:
                return None
            self._make(fd, component, path, found, name)
            place.append(component)
        return b"/".join(place)

    def _make(
        self, parent: int, component: bytes, path: bytes, found: os.stat_result | None, name: bytes
    ) -> None:
        if len(path) > _MAX_PATH or path.count(b"/") >= _MAX_DEPTH:
            raise ImageContentError(
                f"{shown(name)}: its path has {len(path)} bytes and {path.count(b'/') + 1} "
                f"directories; at most {_MAX_PATH} and {_MAX_DEPTH} are accepted"
            )
        replaces = found is not None and stat.S_ISCHR(found.st_mode)
        if found is not None and not replaces:
            raise ImageContentError(f"{shown(name)}: below {shown(path)}, which is no directory")
        if replaces:
            os.unlink(component, dir_fd=parent)
        self.add(parent, component, path)
        if replaces:
            # Deleted and made anew: nothing of the one below shows through.
            self.set_opaque(path)


def split(name: bytes) -> list[bytes]:
    """Return the components of a name in an archive; none for its root.

    Raises:
        ImageContentError: It leaves the root, or has a component that no file can have.
    """
    components: list[bytes] = []
    for part in name.split(b"/"):
        if part == b"..":
            if not components:
                raise ImageContentError(f"{shown(name)}: a name that leaves the image's root")
            components.pop()
        elif part and part != b".":
            if len(part) > _MAX_NAME:
                raise ImageContentError(
                    f"{shown(name)}: a name of {len(part)} bytes; files have at most {_MAX_NAME}"
                )
            components.append(part)
    return components


def exists(parent: int, name: bytes) -> os.stat_result | None:
    """Return what an entry of a directory is, without following it; None if there is none.

    Raises:
        ImageContentError: No file can have the name.
        OSError: It cannot be examined.
    """
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise ImageContentError(f"{shown(name)}: a name of {len(name)} bytes") from None
