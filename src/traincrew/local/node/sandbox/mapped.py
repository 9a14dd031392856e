"""Work on files of other users: as root of a user namespace that has them (`subordinate`)."""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import json
import os
import stat
import sys
from typing import TYPE_CHECKING

from . import program, subordinate

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 30

Owner = tuple[int, int, int]
"""UID, GID and mode of an entry."""


def main(command: str) -> int:
    """Run `remove` or `copy`, with the arguments on standard input; see the functions."""
    request = json.load(sys.stdin)
    try:
        subordinate.enter(request["id_map"])
        if command == "remove":
            return remove(**request["arguments"])
        copy(**request["arguments"])
    except OSError as error:
        sys.stderr.write(f"{program.describe(error)}\n")
        return 1
    return 0


def remove(paths: Iterable[str]) -> int:
    """Remove directories of any depth with everything in them.

    Returns:
        The exit code of `rm`, which says what it cannot remove.

    Raises:
        OSError: There is no such program.
    """
    return os.spawnvp(os.P_WAIT, "rm", ("rm", "-rf", "--", *paths))  # noqa: S606 - no shell is wanted


def copy(source: str, target: str, owners: Iterable[tuple[str, int, int, int]]) -> None:
    """Make a tree that is like another but for owners and modes of some entries.

    What stays as it is becomes a hard link. Symbolic links are not followed.

    Args:
        source: the root of the tree, all of whose entries belong to root.
        target: an empty directory.
        owners: path, UID, GID and mode of the others.

    Raises:
        OSError: It cannot be made.
    """
    owned = {os.fsencode(path): (uid, gid, mode) for path, uid, gid, mode in owners}
    _Copy(os.open(source, _DIRECTORY), os.open(target, _DIRECTORY), owned).run()


class _Copy:
    def __init__(self, source: int, target: int, owners: dict[bytes, Owner]) -> None:
        self._source = source
        self._target = target
        self._owners = owners
        self._copied: dict[tuple[int, int], bytes] = {}
        """The first copy of each file, for its further hard links."""

    def run(self) -> None:
        found, waiting = [], [b""]
        while waiting:
            path = waiting.pop()
            found.append(path)
            waiting += self._fill(path)
        for path in reversed(found):  # the inner ones first: their times change with the content
            self._describe(path)

    def _fill(self, path: bytes) -> list[bytes]:
        """Make the entries of a directory; return the directories among them."""
        source, target = _open(self._source, path), _open(self._target, path)
        try:
            below = []
            for name in sorted(os.fsencode(entry) for entry in os.listdir(source)):
                place = path + b"/" + name if path else name
                status = os.lstat(name, dir_fd=source)
                if stat.S_ISDIR(status.st_mode):
                    os.mkdir(name, 0o700, dir_fd=target)
                    below.append(place)
                elif (owner := self._owners.get(place)) is None:
                    self._link(source, target, name, status)
                else:
                    self._own(source, target, place, status, owner)
            return below
        finally:
            os.close(source)
            os.close(target)

    def _link(self, source: int, target: int, name: bytes, status: os.stat_result) -> None:
        try:
            os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
        except OSError:  # too many links, or a file system without any
            _make(source, target, name, status, (0, 0, stat.S_IMODE(status.st_mode)))

    def _own(
        self, source: int, target: int, path: bytes, status: os.stat_result, owner: Owner
    ) -> None:
        name = path.rpartition(b"/")[2]
        key = (status.st_dev, status.st_ino)
        if (first := self._copied.get(key)) is None:
            _make(source, target, name, status, owner)
            self._copied[key] = path
            return
        directory, _, file = first.rpartition(b"/")
        parent = _open(self._target, directory)
        try:
            os.link(file, name, src_dir_fd=parent, dst_dir_fd=target, follow_symlinks=False)
        finally:
            os.close(parent)

    def _describe(self, path: bytes) -> None:
        """Give a directory its owner, mode, attributes and time."""
        source, target = _open(self._source, path), _open(self._target, path)
        try:
            status = os.fstat(source)
            _set(source, target, status, self._owners.get(path, (0, 0, status.st_mode)))
        finally:
            os.close(source)
            os.close(target)


def _make(source: int, target: int, name: bytes, status: os.stat_result, owner: Owner) -> None:
    """Make a copy of what is no directory, with its owner."""
    uid, gid, mode = owner
    times = (status.st_atime_ns, status.st_mtime_ns)
    if stat.S_ISREG(status.st_mode):
        original = os.open(name, _FILE, dir_fd=source)
        made = os.open(name, _NEW_FILE, 0o600, dir_fd=target)
        try:
            _copy_content(original, made, status.st_size)
            _set(original, made, status, owner)
        finally:
            os.close(original)
            os.close(made)
        return
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
    elif stat.S_ISFIFO(status.st_mode):
        os.mkfifo(name, 0o600, dir_fd=target)
    else:  # a whiteout
        os.mknod(name, status.st_mode, status.st_rdev, dir_fd=target)
    os.chown(name, uid, gid, dir_fd=target, follow_symlinks=False)
    if not stat.S_ISLNK(status.st_mode):
        os.chmod(name, mode, dir_fd=target)
    os.utime(name, ns=times, dir_fd=target, follow_symlinks=False)


def _set(source: int, target: int, status: os.stat_result, owner: Owner) -> None:
    uid, gid, mode = owner
    os.fchown(target, uid, gid)
    os.fchmod(target, stat.S_IMODE(mode))  # after the owner, whose change takes bits away
    for name in os.listxattr(source):
        if name.startswith("user."):
            os.setxattr(target, name, os.getxattr(source, name))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_content(source: int, target: int, size: int) -> None:
    """Copy a file; holes stay holes."""
    os.ftruncate(target, size)
    position = 0
    while position < size:
        try:
            start = os.lseek(source, position, os.SEEK_DATA)
        except OSError:
            return  # only a hole is left
        position = os.lseek(source, start, os.SEEK_HOLE)
        os.lseek(target, start, os.SEEK_SET)
        os.lseek(source, start, os.SEEK_SET)
        left = position - start
        while left:
            count = os.sendfile(target, source, None, min(left, _PIECE))
            if not count:
                return
            left -= count


def _open(root: int, path: bytes) -> int:
    """Open a directory below another; no component may be a link."""
    opened = os.dup(root)
    for name in path.split(b"/") if path else ():
        try:
            below = os.open(name, _DIRECTORY, dir_fd=opened)
        finally:
            os.close(opened)
        opened = below
    return opened
