"""Directories that a layer has entries of, but does not describe: they are those of lower layers.

A layer is unpacked once for all images, so nobody knows then what is below it. Such a directory
gets the mode 0755, and would hide that of a lower layer: only root could write ``/tmp``. An image
whose layers have such directories gets one more layer, of directories as they should be. containerd
copies them from the layers below while it unpacks.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from traincrew.local.images.oci.opaque import is_opaque

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

__all__ = ["restore_directories"]

_MAX_DIRECTORIES = 20_000
"""Of one image; bazel, which describes none, makes some thousands."""
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNDESCRIBED = (0o755, 0, 0)


class LayerDirectories(Struct, frozen=True):
    """The directories of a layer.

    Attributes:
        tree: where it is unpacked.
        implied: paths of those that it does not describe.
        owners: UID and GID of those that are this user's, and not root's in the image.
    """

    tree: Path
    implied: Iterable[bytes]
    owners: Mapping[bytes, tuple[int, int]]


class OwnedDirectory(Struct, frozen=True, array_like=True):
    """A directory that was made, and whose it is in the image.

    Attributes:
        path: as bytes, each of them a character.
    """

    path: str
    uid: int
    gid: int
    mode: int


class _Described(NamedTuple):
    mode: int
    uid: int
    gid: int
    mtime: int


class _Looked(Struct):
    found: _Described | None
    """The directory; None if the layer has none of this path."""
    hides: bool
    """Whether those of the layers below do not count."""


class _Layer:
    """The tree of a layer, and which of its directories it does not describe."""

    def __init__(self, layer: LayerDirectories, *, owned: bool) -> None:
        # Its mode may forbid this user to read it.
        self.root = os.open(layer.tree, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.implied = frozenset(layer.implied)
        self._owners = layer.owners
        self._owned = owned

    def look(self, path: bytes) -> _Looked:
        """Look for a directory in its tree; links are not followed."""
        hides = False
        current = os.dup(self.root)
        try:
            for name in path.split(b"/") if path else ():
                try:
                    below = os.open(name, _OPEN, dir_fd=current)
                except FileNotFoundError:
                    return _Looked(None, hides)
                except OSError as error:
                    if error.errno not in {errno.ENOTDIR, errno.ELOOP, errno.EACCES}:
                        raise
                    return _Looked(None, hides=True)
                os.close(current)
                current = below
                hides = hides or is_opaque(current)
            return _Looked(self._described(path, os.fstat(current)), hides)
        finally:
            os.close(current)

    def _described(self, path: bytes, status: os.stat_result) -> _Described:
        if self._owned:
            uid, gid = status.st_uid, status.st_gid
        else:
            uid, gid = self._owners.get(path, (0, 0))
        return _Described(stat.S_IMODE(status.st_mode), uid, gid, status.st_mtime_ns)


def restore_directories(
    layers: Sequence[LayerDirectories], target: Path, *, owned: bool
) -> list[OwnedDirectory]:
    """Make the directories that hide others which they should be like.

    Args:
        layers: lowest first.
        target: where to make them; it is not made if there are none.
        owned: whether files have the owners of the image.

    Returns:
        Those that should belong to others than root, and belong to this user.

    Raises:
        OSError: They cannot be made.
    """
    opened: list[_Layer] = []
    try:
        opened.extend(_Layer(layer, owned=owned) for layer in layers)
        opened.reverse()  # as they are looked through: the highest first
        paths = sorted({path for layer in opened for path in layer.implied})[:_MAX_DIRECTORIES]
        wanted = [path for path in paths if _is_wrong(opened, path)]
        if not wanted:
            return []
        made = _make(opened, _with_parents(wanted), target, owned=owned)
        return [
            OwnedDirectory(path.decode("latin-1"), each.uid, each.gid, each.mode)
            for path, each in made.items()
            if not owned and (each.uid or each.gid)
        ]
    finally:
        for each in opened:
            os.close(each.root)


def _is_wrong(layers: Sequence[_Layer], path: bytes) -> bool:
    """Return whether the highest directory of a path is not as a lower layer describes it."""
    found = _described(layers, path)
    return found is not None and found[:3] != _UNDESCRIBED


def _described(layers: Sequence[_Layer], path: bytes) -> _Described | None:
    """Return what a directory should be, if its highest layer does not describe it."""
    is_highest = True
    for layer in layers:
        looked = layer.look(path)
        if looked.found is not None:
            if path not in layer.implied:
                return None if is_highest else looked.found
            is_highest = False
        if looked.hides:
            return None
    return None


def _with_parents(paths: Iterable[bytes]) -> list[bytes]:
    found = {b""}
    for path in paths:
        parts = path.split(b"/") if path else []
        found.update(b"/".join(parts[:count]) for count in range(1, len(parts) + 1))
    return sorted(found)


def _make(
    layers: Sequence[_Layer], paths: list[bytes], target: Path, *, owned: bool
) -> dict[bytes, _Described]:
    target.mkdir(mode=0o700)
    made: dict[bytes, _Described] = {}
    root = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path in paths:
            if path:
                os.mkdir(path, 0o700, dir_fd=root)
        for path in reversed(paths):  # the inner ones first: a mode may forbid to go in
            found = _described(layers, path) or _highest(layers, path)
            if found is None:
                continue
            made[path] = found
            fd = os.open(path or b".", _OPEN, dir_fd=root)
            try:
                if owned:
                    os.fchown(fd, found.uid, found.gid)
                os.fchmod(fd, found.mode)
                os.utime(fd, ns=(found.mtime, found.mtime))
            finally:
                os.close(fd)
    finally:
        os.close(root)
    return made


def _highest(layers: Sequence[_Layer], path: bytes) -> _Described | None:
    for layer in layers:
        looked = layer.look(path)
        if looked.found is not None or looked.hides:
            return looked.found
    return None
