"""Where clusters of this machine keep credentials: what no pod may see.

Clusters may be anywhere (`XDG_DATA_HOME`, `TRAINCREW_HOME`, the temporary directory), so each with
a directory records it in the cache of environments, which all clusters of a user share, and a
running one also in `/dev/shm` (`node.volumes.shared_memory`). A cluster that root runs hides those
of other users, too. What they wrote names only what belongs to them: nobody can make a path of
another user disappear from pods.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.directories import private_directory, write_new

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Credentials", "Owned", "aliases", "read_owned", "record", "recorded"]

_DATA = Path(".local", "share", "traincrew")
_CACHE = Path(".cache", "traincrew")
_RECORDS = "clusters"
"""Directory in the cache: one file for each directory of a cluster, which it names."""
_MAX_ENTRIES = 1000
_MAX_PATH_BYTES = 4096
_KEPT_SECONDS = 2.0
"""For which a result is used again: many containers start at once."""
_MOUNT_FIELDS = 5
"""Of a line of mountinfo, up to the mount point."""
_PASSWD_COLONS = 6
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Owned(NamedTuple):
    """A path, and the user whose cluster or file it has to be."""

    path: Path
    uid: int

    def is_true(self) -> bool:
        """Return whether it exists and is that user's."""
        try:
            return self.path.stat().st_uid == self.uid
        except (OSError, ValueError):
            return False


def record(directory: Path, cache: Path) -> None:
    """Record the directory of a cluster, for the pods of all other clusters of this user.

    Raises:
        OSError: The cache cannot be written.
    """
    records = cache / _RECORDS
    private_directory(records)
    text = os.fsencode(directory.resolve())
    write_new(records / hashlib.sha256(text).hexdigest()[:32], text)


def recorded(cache: Path, uid: int) -> list[Path]:
    """Return the recorded directories of a user that exist; forget those that were removed."""
    found = []
    with suppress(OSError), os.scandir(cache / _RECORDS) as entries:
        for entry in islice(entries, _MAX_ENTRIES):
            content = read_owned(entry.path, uid, _MAX_PATH_BYTES)
            if not content or b"\0" in content:
                continue
            directory = Path(os.fsdecode(content))
            if not directory.is_absolute():
                continue
            if directory.is_dir():
                found.append(directory)
            elif uid == os.geteuid() and _is_removed(directory):
                with suppress(OSError):
                    Path(entry.path).unlink()
    return found


def _is_removed(directory: Path) -> bool:
    """Return whether a missing directory was removed, rather than its disk was not mounted.

    The directory of a mount is empty without it.
    """
    above = next((each for each in directory.parents if each.is_dir()), None)
    try:
        return above is not None and next(above.iterdir(), None) is not None
    except OSError:
        return False


def read_owned(path: str | Path, uid: int, limit: int) -> bytes | None:
    """Return the content of a regular file of a user; None if it is another file, or larger.

    It may be hostile: no link is followed, and nothing is waited for.

    Args:
        path: Of the file.
        uid: Its owner.
        limit: Bytes.
    """
    try:
        descriptor = os.open(path, _OPEN)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != uid:
            return None
        content = os.read(descriptor, limit + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return content if len(content) <= limit else None


class Credentials:
    """Finds what no pod of a cluster may see.

    Args:
        cache: The cache of environments of this user.
        running: Returns the directories that running nodes have named, with their owners.
        clock: Seconds.
    """

    def __init__(
        self,
        cache: Path,
        running: Callable[[], Iterable[tuple[Path, int]]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self._running = running
        self._clock = clock
        self._found_at = -_KEPT_SECONDS
        self._clusters: list[Owned] = []
        self._kubeconfigs: list[Owned] = []

    def clusters(self) -> list[Owned]:
        """Return the directories of clusters of this user; as root, of every user."""
        self._find()
        return self._clusters

    def _find(self) -> None:
        if self._clock() - self._found_at < _KEPT_SECONDS:
            return
        self._found_at = self._clock()
        uid, homes = os.geteuid(), _other_homes()
        found = [Owned(path, uid) for path in recorded(self._cache, uid)]
        # A node's directory is below that of its cluster.
        found += [Owned(path.parent, owner) for path, owner in self._running()]
        for home in homes:
            found += [Owned(path, home.uid) for path in recorded(home.path / _CACHE, home.uid)]
            found.append(Owned(home.path / _DATA / "clusters", home.uid))
        self._clusters = [each for each in found if each.is_true()]
        kubeconfigs = [Owned(each.path / ".kube", each.uid) for each in homes]
        self._kubeconfigs = [each for each in kubeconfigs if each.is_true()]

    def paths(self) -> list[Path]:
        """Return the directories of clusters, and where their users keep kubeconfigs.

        Those of this user need not exist: they may be created later.
        """
        own = [Path.home() / ".kube", Path.home() / _DATA / "clusters"]
        data, home = os.environ.get("XDG_DATA_HOME"), os.environ.get("TRAINCREW_HOME")
        if data:
            own.append(Path(data) / "traincrew" / "clusters")
        if home:
            own.append(Path(home).expanduser() / "clusters")
        self._find()
        return [*own, *(each.path for each in (*self._clusters, *self._kubeconfigs))]


def _other_homes() -> list[Owned]:
    """Return the home directories of other users, if this one is root."""
    if os.geteuid() != 0:
        return []
    # Not by the C library: a directory service may have any number of users.
    homes: set[str] = set()
    with suppress(OSError, UnicodeError):
        lines = Path("/etc/passwd").read_text(encoding="utf-8").splitlines()
        homes = {line.split(":")[5] for line in lines if line.count(":") >= _PASSWD_COLONS}
    with suppress(OSError), os.scandir("/home") as entries:
        homes |= {entry.path for entry in islice(entries, _MAX_ENTRIES)}
    found = []
    for home in sorted(homes)[:_MAX_ENTRIES]:
        with suppress(OSError, ValueError):
            owner = Path(home).stat().st_uid
            if owner != 0:
                found.append(Owned(Path(home), owner))
    return found


@lru_cache(maxsize=1)
def aliases(paths: tuple[str, ...], mountinfo: str) -> list[str]:
    """Return under which other paths the machine's mounts show these.

    Args:
        paths: Without symbolic links.
        mountinfo: The content of `/proc/self/mountinfo`.
    """
    mounts = []
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if len(fields) > _MOUNT_FIELDS:
            mounts.append((fields[2], _plain(fields[3]), _plain(fields[4])))
    found = []
    for path in paths:
        # Of mounts at the same point the last is visible.
        holding = [each for each in reversed(mounts) if _below(path, each[2]) is not None]
        if not holding:
            continue
        device, top, point = max(holding, key=lambda each: len(each[2]))
        inside = _joined(top, _below(path, point) or "")
        for other in mounts:
            below = _below(inside, other[1]) if other[0] == device and other[2] != point else None
            if below is not None:
                found.append(_joined(other[2], below))
    return [each for each in dict.fromkeys(found) if each not in paths]


def _below(path: str, directory: str) -> str | None:
    """Return a path relative to a directory; None if it is not below it."""
    if path == directory:
        return ""
    top = directory.rstrip("/") + "/"
    return path[len(top) :] if path.startswith(top) else None


def _joined(directory: str, below: str) -> str:
    return f"{directory.rstrip('/')}/{below}".rstrip("/") or "/"


def _plain(field: str) -> str:
    """Undo the kernel's octal escapes of blank, tab, newline and backslash."""
    if "\\" not in field:
        return field
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        field = field.replace(f"\\{code}", character)
    return field
