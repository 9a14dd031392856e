"""Directories and files that no other user can write, whatever the umask is; where the cache is."""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import shlex
import shutil
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path

__all__ = [
    "check_trusted",
    "default_cache",
    "discard_tree",
    "is_safe_parent",
    "make_directory",
    "private_directory",
    "remove_tree",
    "write_new",
]

_MAX_LINKS = 40
"""Of one path, as in the kernel."""


def default_cache() -> Path:
    """Return the cache of environments: `$TRAINCREW_CACHE`, or `traincrew` in the user's cache."""
    if configured := os.environ.get("TRAINCREW_CACHE"):
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "traincrew"


def is_safe_parent(directory: Path) -> bool:
    """Return whether only root can replace entries that this user creates in a directory."""
    try:
        found = directory.stat()
    except OSError:
        return False
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid in {0, os.geteuid()}
        and bool(not shared or found.st_mode & stat.S_ISVTX)
    )


def make_directory(path: Path) -> None:
    """Create a directory, and those above it, that only their owner can write.

    An existing one stays as it is.

    Raises:
        OSError: It cannot be created, or is not a directory.
    """
    try:
        path.mkdir(mode=0o755, exist_ok=True)
    except FileNotFoundError:
        make_directory(path.parent)
        path.mkdir(mode=0o755, exist_ok=True)


def write_new(path: Path, content: bytes) -> None:
    """Write a file that only its owner can write, in place of an existing one.

    Raises:
        OSError: It cannot be written.
    """
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
        file.write(content)


def private_directory(path: Path) -> None:
    """Create a directory of mode 0700, or set that mode on an existing one, whatever the umask.

    Raises:
        PermissionError: It belongs to another user.
        OSError: It cannot be created, or is not a directory.
    """
    make_directory(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise PermissionError(
            f"{path} belongs to another user (uid {found.st_uid}); use a directory of your own"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)


def check_trusted(path: Path) -> None:
    """Check that only this user and root can change a file, or what its path leads to.

    Every directory on the way, and every symbolic link that is followed, must belong to one of the
    two, and only a sticky directory may be writable for others. (The group of root may write, and
    so may a group that is this user's own.) What does not exist is no error: nobody else can create
    it.

    Raises:
        PermissionError: Another user could change it; one line that names the place and the fix.
        OSError: It leads in a circle, or a part of it cannot be examined.
    """
    place, rest, links = Path("/"), list(reversed(path.absolute().parts[1:])), 0
    _check_owner(place, place.lstat(), last=not rest)
    while rest:
        part = rest.pop()
        if part == "..":
            place = place.parent
            continue
        entry = place / part
        try:
            found = entry.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return
        _check_owner(entry, found, last=not rest)
        if not stat.S_ISLNK(found.st_mode):
            place = entry
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = entry.readlink()
        if target.is_absolute():
            place = Path("/")
        rest.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))


def _check_owner(place: Path, found: os.stat_result, *, last: bool) -> None:
    """Raise PermissionError if a user other than this one and root owns or can write a place."""
    if found.st_uid not in _trusted_owners():
        raise PermissionError(
            f"{place} belongs to another user (uid {found.st_uid}), who could put any program "
            "there: use a directory that is yours or root's"
        )
    if stat.S_ISLNK(found.st_mode):
        return  # the kernel ignores its mode
    mode = stat.S_IMODE(found.st_mode)
    if mode & stat.S_ISVTX and stat.S_ISDIR(found.st_mode) and not last:
        return  # others may create entries there, and replace none of ours
    others = mode & stat.S_IWOTH
    if mode & stat.S_IWGRP and found.st_gid != 0:
        others |= found.st_gid != _own_group()
    if others:
        raise PermissionError(
            f"{place} can be written by other users (mode {mode:04o}), who could put any program "
            f"there: chmod go-w {shlex.quote(str(place))}"
        )


def _trusted_owners() -> frozenset[int]:
    return frozenset({0, os.geteuid()}) | _unmapped_owners()


@cache
def _unmapped_owners() -> frozenset[int]:
    """Return the user that stands for those which this user namespace does not know.

    The machine's root, who owns the directories above ours, is one of them in most.
    """
    try:
        maps = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
        if [line.split() for line in maps] == [["0", "0", "4294967295"]]:
            return frozenset()
        return frozenset({int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii"))})
    except (OSError, ValueError):
        return frozenset()


@cache
def _own_group() -> int:
    """Return the group that has this user as its only member by convention, or -1.

    Where every user has a group of the same name, new directories are writable for it.
    """
    import grp
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid())
        group = grp.getgrgid(user.pw_gid)
    except KeyError:
        return -1
    alone = group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
    return group.gr_gid if alone else -1


def remove_tree(path: Path) -> None:
    """Remove a file, or a directory with everything in it, also where directories are not writable.

    Files of users that containers had (`subordinate`) are removed as well. Symbolic links are not
    followed. What is not there, or what another process removes meanwhile, is no error.

    Raises:
        OSError: A part of it cannot be removed.
    """
    with suppress(FileNotFoundError):
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _remove(parent, os.fsencode(path.name))
        except PermissionError:
            # Imported where it is needed, which is nearly never.
            from traincrew.local.subordinate import remove_mapped

            remove_mapped([path])
        except OSError as error:
            error.filename = str(path)  # it was relative to an open directory
            raise
        finally:
            os.close(parent)


def _remove(parent: int, name: bytes) -> None:
    """Remove an entry of a directory.

    Directories are moved into the outermost one before they are emptied, so that neither the depth
    of a tree nor the length of its paths matters.
    """
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=parent)
        return
    top = _open_writable(parent, name)
    try:
        prefix = b".removed-" + secrets.token_hex(8).encode()
        numbers = itertools.count()
        waiting = _empty(top)
        while waiting:
            below = waiting.pop()
            with suppress(FileNotFoundError):
                directory = _open_writable(top, below)
                try:
                    for child in _empty(directory):
                        moved = b"%s-%d" % (prefix, next(numbers))
                        with suppress(FileNotFoundError):
                            _move(directory, child, top, moved)
                            waiting.append(moved)
                finally:
                    os.close(directory)
                os.rmdir(below, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _open_writable(parent: int, name: bytes) -> int:
    """Open a directory whose entries can be removed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, dir_fd=parent)
    except PermissionError:
        # It is this user's, in a directory of this user: it cannot have become a link.
        os.chmod(name, 0o700, dir_fd=parent)
        fd = os.open(name, flags, dir_fd=parent)
    try:
        if os.fstat(fd).st_mode & 0o700 != 0o700:
            os.fchmod(fd, 0o700)
    except OSError:
        os.close(fd)
        raise
    return fd


def _empty(directory: int) -> list[bytes]:
    """Remove what is in a directory but for the directories, whose names are returned."""
    with os.scandir(directory) as found:
        entries = [(os.fsencode(one.name), one.is_dir(follow_symlinks=False)) for one in found]
    for name, is_directory in entries:
        if not is_directory:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
    return [name for name, is_directory in entries if is_directory]


def _move(source: int, name: bytes, target: int, moved: bytes) -> None:
    try:
        os.rename(name, moved, src_dir_fd=source, dst_dir_fd=target)
    except PermissionError:
        # Its own entry `..` changes, so it has to be writable, too.
        os.close(_open_writable(source, name))
        os.rename(name, moved, src_dir_fd=source, dst_dir_fd=target)


def discard_tree(path: Path) -> None:
    """Remove a directory as `remove_tree` does, or as much of it as can be."""
    try:
        remove_tree(path)
    except OSError:
        with suppress(RecursionError):
            shutil.rmtree(path, ignore_errors=True)
