"""The node's directory in `/dev/shm`, which all users of this machine share.

`/dev/shm` is writable for all users, so nothing in it is trusted by its name: the directory is
created by `mkdtemp`, the state directory records its name, and it is reused only if it is a real
directory of this user with mode 0700. Files in it outlive a killed process, so each node deletes
the directories of earlier ones; it opens and deletes nothing that another user owns.

A node holds a shared lock of its directory, and one that is locked is never deleted: a state
directory that this process cannot see may exist in another mount namespace.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from traincrew.local.directories import discard_tree, is_safe_parent
from traincrew.local.filelocks import try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MEMORY", "ClaimedDirectory", "claim_directory", "nodes", "sweep"]

MEMORY = Path("/dev/shm")  # noqa: S108  # see above
_PREFIX = "traincrew-"
_NAME = re.compile(r"traincrew-[A-Za-z0-9_]{1,64}")
_RECORD = "memory-directory"
"""File in the state directory: the name of the directory in memory."""
_OWNER = ".owner"
"""File in the directory in memory: the path of the state directory."""
_MAX_PATH_BYTES = 4096
_MAX_ENTRIES = 10_000
"""Entries that a sweep examines; any user can create any number of them."""
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ClaimedDirectory:
    """A directory that is used, and that no sweep deletes until it is closed.

    Args:
        path: The directory. Without a lock where it cannot be opened or its file system has none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        with suppress(OSError):
            self._descriptor = os.open(path, _OPEN | os.O_DIRECTORY)
            try_lock(self._descriptor, shared=True)

    def close(self) -> None:
        """Release the lock; has no effect when called again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def claim_directory(state: Path, root: Path = MEMORY) -> ClaimedDirectory:
    """Claim the directory in memory of the node with this state directory; create it if needed.

    Args:
        state: The node's directory; it exists and belongs to this user.
        root: Where all users may create directories.

    Returns:
        The recorded one if it is valid, else a new one; inside the state directory where `root`
        cannot be used safely.

    Raises:
        OSError: The state directory cannot be written.
    """
    name = _recorded(state)
    if name is not None and _is_ours(root / name):
        return _claim(root / name, state, record=False)
    if is_safe_parent(root):
        with suppress(OSError):
            return _claim(Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root)), state, record=True)
    fallback = state / "memory"
    fallback.mkdir(mode=0o700, exist_ok=True)
    return ClaimedDirectory(fallback)


def _claim(directory: Path, state: Path, *, record: bool) -> ClaimedDirectory:
    claimed = ClaimedDirectory(directory)
    try:
        # In this order: a sweep deletes a directory whose state directory records another one.
        if record:
            _record(state, directory.name)
        _write_owner(directory, state)
    except BaseException:
        claimed.close()
        raise
    return claimed


def sweep(root: Path = MEMORY) -> None:
    """Delete our directories that no node holds and whose state is gone or records another one."""
    with suppress(OSError), os.scandir(root) as entries:
        names = [entry.name for entry in islice(entries, _MAX_ENTRIES)]
        for name in names:
            if _NAME.fullmatch(name) and _is_forgotten(root / name):
                with suppress(OSError), _opened(root / name) as descriptor:
                    if try_lock(descriptor):
                        discard_tree(root / name)


def nodes(root: Path = MEMORY) -> list[tuple[Path, int]]:
    """Return the directories of running nodes, with their owners: this user's; as root, all."""
    found = []
    with suppress(OSError), os.scandir(root) as entries:
        names = [entry.name for entry in islice(entries, _MAX_ENTRIES)]
        for name in names:
            with suppress(OSError):
                owner = os.lstat(root / name).st_uid
                if not _NAME.fullmatch(name) or os.geteuid() not in {0, owner}:
                    continue
                if (state := _read_owner(root / name, owner)) is not None:
                    found.append((state, owner))
    return found


def _is_forgotten(directory: Path) -> bool:
    state = _read_owner(directory)
    if state is None:
        return False
    try:
        os.lstat(state)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    recorded = _recorded(state)
    return recorded is not None and recorded != directory.name


@contextmanager
def _opened(directory: Path, owner: int | None = None) -> Iterator[int]:
    """Open a descriptor of a directory of this user, or of another owner.

    Raises:
        OSError: It is not a directory, or belongs to another user.
    """
    descriptor = os.open(directory, _OPEN | os.O_DIRECTORY)
    try:
        found = os.fstat(descriptor)
        wanted = os.geteuid() if owner is None else owner
        if found.st_uid != wanted or stat.S_IMODE(found.st_mode) != 0o700:
            raise PermissionError(f"{directory} is not a directory of its user with mode 0700")
        yield descriptor
    finally:
        os.close(descriptor)


def _is_ours(directory: Path) -> bool:
    try:
        with _opened(directory):
            return True
    except OSError:
        return False


def _read(name: str | Path, directory: int | None = None, owner: int | None = None) -> str | None:
    """Read a small regular file of this user or another owner; None if it is anything else."""
    try:
        descriptor = os.open(name, _OPEN, dir_fd=directory)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        wanted = os.geteuid() if owner is None else owner
        if not stat.S_ISREG(found.st_mode) or found.st_uid != wanted:
            return None
        content = os.read(descriptor, _MAX_PATH_BYTES + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return os.fsdecode(content) if len(content) <= _MAX_PATH_BYTES else None


def _read_owner(directory: Path, owner: int | None = None) -> Path | None:
    try:
        with _opened(directory, owner) as descriptor:
            text = _read(_OWNER, descriptor, owner)
    except OSError:
        return None
    state = Path(text) if text else None
    return state if state is not None and state.is_absolute() else None


def _write_owner(directory: Path, state: Path) -> None:
    """Record the owner of the directory in a new file, without following links."""
    with _opened(directory) as descriptor:
        with suppress(FileNotFoundError):
            os.unlink(_OWNER, dir_fd=descriptor)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        owner = os.open(_OWNER, flags, 0o600, dir_fd=descriptor)
        with os.fdopen(owner, "wb") as file:
            file.write(os.fsencode(state))


def _recorded(state: Path) -> str | None:
    name = (_read(state / _RECORD) or "").strip()
    return name if _NAME.fullmatch(name) else None


def _record(state: Path, name: str) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=f".{_RECORD}.", dir=state)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(name + "\n")
    Path(temporary).replace(state / _RECORD)
