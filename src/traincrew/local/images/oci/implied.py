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
from typing import TYPE_CHECKING

from msgspec import Struct

from traincrew.local.images.oci.opaque import is_opaque

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["restore_directories"]

_MAX_DIRECTORIES = 20_000
"""Of one image; bazel, which describes none, makes some thousands."""
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNDESCRIBED = (0o755, 0, 0)


class _Layer:
    """The tree of a layer, and which of its directories it does not describe."""

    def __init__(self, tree: Path, implied: Iterable[bytes]) -> None:
        # Its mode may forbid this user to read it.
        self.root = os.open(tree, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.implied = frozenset(implied)


class _Looked(Struct):
    status: os.stat_result | None
    """Of the directory; None if the layer has none of this path."""
    hides: bool
    """Whether those of the layers below do not count."""


def restore_directories(
    layers: Sequence[tuple[Path, Iterable[bytes]]], target: Path, *, owned: bool
) -> bool:
    """Make the directories that hide others which they should be like.

    Args:
        layers: tree of each layer, lowest first, and the paths of directories that it does not
            describe.
        target: where to make them; it is not made if there are none.
        owned: whether files have the owners of the image.

    Returns:
        Whether there are any.

    Raises:
        OSError: They cannot be made.
    """
    opened: list[_Layer] = []
    try:
        for tree, implied in layers:
            opened.append(_Layer(tree, implied))
        opened.reverse()  # as they are looked through: the highest first
        paths = sorted({path for layer in opened for path in layer.implied})[:_MAX_DIRECTORIES]
        wanted = [path for path in paths if _is_wrong(opened, path, owned=owned)]
        if not wanted:
            return False
        _make(opened, _with_parents(wanted), target, owned=owned)
        return True
    finally:
        for layer in opened:
            os.close(layer.root)


def _is_wrong(layers: Sequence[_Layer], path: bytes, *, owned: bool) -> bool:
    """Return whether the highest directory of a path is not as a lower layer describes it."""
    found = _described(layers, path)
    return found is not None and _properties(found, owned=owned) != _UNDESCRIBED


def _properties(found: os.stat_result, *, owned: bool) -> tuple[int, int, int]:
    uid, gid = (found.st_uid, found.st_gid) if owned else (0, 0)
    return stat.S_IMODE(found.st_mode), uid, gid


def _described(layers: Sequence[_Layer], path: bytes) -> os.stat_result | None:
    """Return what a directory should be, if its highest layer does not describe it."""
    is_highest = True
    for layer in layers:
        looked = _look(layer.root, path)
        if looked.status is not None:
            if path not in layer.implied:
                return None if is_highest else looked.status
            is_highest = False
        if looked.hides:
            return None
    return None


def _look(root: int, path: bytes) -> _Looked:
    """Look for a directory in the tree of a layer; links are not followed."""
    hides = False
    current = os.dup(root)
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
        return _Looked(os.fstat(current), hides)
    finally:
        os.close(current)


def _with_parents(paths: Iterable[bytes]) -> list[bytes]:
    found = {b""}
    for path in paths:
        parts = path.split(b"/") if path else []
        found.update(b"/".join(parts[:count]) for count in range(1, len(parts) + 1))
    return sorted(found)


def _make(layers: Sequence[_Layer], paths: list[bytes], target: Path, *, owned: bool) -> None:
    target.mkdir(mode=0o700)
    root = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path in paths:
            if path:
                os.mkdir(path, 0o700, dir_fd=root)
        for path in reversed(paths):  # the inner ones first: a mode may forbid to go in
            found = _described(layers, path) or _highest(layers, path)
            if found is None:
                continue
            fd = os.open(path or b".", _OPEN, dir_fd=root)
            try:
                if owned:
                    os.fchown(fd, found.st_uid, found.st_gid)
                os.fchmod(fd, stat.S_IMODE(found.st_mode))
                os.utime(fd, ns=(found.st_mtime_ns, found.st_mtime_ns))
            finally:
                os.close(fd)
    finally:
        os.close(root)


def _highest(layers: Sequence[_Layer], path: bytes) -> os.stat_result | None:
    for layer in layers:
        looked = _look(layer.root, path)
        if looked.status is not None or looked.hides:
            return looked.status
    return None
