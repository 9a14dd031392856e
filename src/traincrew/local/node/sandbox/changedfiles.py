"""The files a container wrote outside of volumes: counted after its end, copied on request.

All of them are on one tmpfs (see `rootfs`), whose mount disappears with the container's namespaces.
The shim holds a descriptor of its top directory, which keeps the files until they are counted. It
sees the writable directories alone: mounts on top of them belong to the namespace.
"""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import json
import os
import socket
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from . import budget

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_DIRECTORY = _FLAGS | os.O_DIRECTORY
_MAX_ENTRIES = 20_000
_MAX_SECONDS = 0.5
_MAX_DEPTH = 64
_MAX_PATHS = 8
_MAX_MESSAGE_BYTES = 1_048_576
_CHUNK = 1_048_576
# Programs create these for themselves whenever they are missing.
_CACHES = frozenset({"__pycache__", ".cache"})
# Or they mark them: https://bford.info/cachedir/
_TAG, _TAG_CONTENT = "CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55"

Baseline = dict[str, tuple[int, int, int]]


class Written:
    """The files of one container; created before it is forked.

    Args:
        specification: See `traincrew.local.node.runtime.processes.Report`; None for no report.
        limit: Bytes of memory that the container may use; 0 for no limit.
        measured: Whether what it writes is measured while it runs, also without a limit.
    """

    def __init__(
        self, specification: dict[str, Any] | None, limit: int = 0, *, measured: bool = False
    ) -> None:
        self._specification = specification
        self._limit = limit
        self._measured = measured or limit > 0
        self._used = 0
        self._descriptor = -1
        self._layers: list[tuple[str, str]] = []
        self._baseline: Baseline = {}
        self._collect: list[tuple[str, dict[str, Any]]] = []
        if self.is_wanted:
            self._ours, self._theirs = socket.socketpair()

    @property
    def is_wanted(self) -> bool:
        """Whether a report or a limit is requested, so that the program has to `hand_over`."""
        return self._specification is not None or self._measured

    def hand_over(self, descriptor: int, layers: list[tuple[str, str]]) -> None:
        """Send the top directory to the shim; called in the program when its root is complete.

        Args:
            descriptor: Of the top directory of all writable files.
            layers: Directories below it, each with its path in the container; outer ones first.
        """
        collect = self._specification["collect"] if self._specification is not None else ()
        paths = [os.path.realpath(each["path"]) for each in collect]
        # Of an overlay it is not that of the top directory.
        root = os.stat("/").st_dev
        message = json.dumps({"layers": layers, "paths": paths, "root": root}).encode() + b"\n"
        sent = socket.send_fds(self._theirs, [message[:4096]], [descriptor])
        self._theirs.sendall(message[sent:])
        self._theirs.close()

    def close_theirs(self) -> None:
        """Close the program's end; called in the shim after the fork."""
        if self.is_wanted:
            self._theirs.close()

    def receive(self) -> dict[str, int] | None:
        """Record the existing files; called in the shim before the program runs.

        Returns:
            The file system that holds them: see `runtime.instances.RootFiles`; None if unmeasured.
        """
        if not self.is_wanted:
            return None
        data, descriptors, _, _ = socket.recv_fds(self._ours, _MAX_MESSAGE_BYTES, 1)
        while data and not data.endswith(b"\n") and (chunk := self._ours.recv(_MAX_MESSAGE_BYTES)):
            data += chunk
        self._ours.close()
        if not descriptors:
            return None  # the program failed before and reports that itself
        self._descriptor = descriptors[0]
        os.set_inheritable(self._descriptor, False)
        handed = json.loads(data)
        if self._specification is not None:
            self._record(handed)
        if not self._measured:
            return None
        self._used = self._size()
        return {"device": handed["root"], "used": self._used}

    def _size(self) -> int:
        found = os.fstatvfs(self._descriptor)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def exceeds_limit(self) -> bool:
        """Return whether the container has written more than all the memory that it may use."""
        if not self._limit or self._descriptor < 0:
            return False
        return self._size() - self._used > self._limit

    def _record(self, handed: dict[str, Any]) -> None:
        """Record the existing files, for the report."""
        assert self._specification is not None
        self._layers = [(layer, target) for layer, target in handed["layers"]]
        collect = self._specification["collect"]
        self._collect = list(zip(handed["paths"], collect, strict=True))
        for layer, _ in self._layers:
            with _opened(self._descriptor, layer) as top:
                for file in _files(top):
                    self._baseline[f"{layer}/{file.path}"] = _identity(file.status)

    def finish(self, directory: str) -> None:
        """Write `written.json`; called in the shim when the program has ended.

        Args:
            directory: Of the instance.
        """
        from . import files

        if self._specification is None:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            return
        report: dict[str, Any] = {"container": self._specification["container"]}
        if self._descriptor >= 0:
            with suppress(OSError):
                report |= self._count()
        size = report.get("bytes", 0)
        report["collected"] = [self._copy(path, each, size) for path, each in self._collect]
        with suppress(OSError):
            files.write_json(f"{directory}/written.json", report)
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def _changed(self, key: str, found: os.stat_result) -> bool:
        return self._baseline.get(key) != _identity(found)

    def _count(self) -> dict[str, Any]:
        """Count the files and their sizes by outermost path, within a bounded time."""
        until = time.monotonic() + _MAX_SECONDS
        files = size = seen = 0
        paths: dict[str, list[int]] = {}
        for layer, target in self._layers:
            with _opened(self._descriptor, layer) as top:
                for file in _files(top, skip=_CACHES):
                    seen += 1
                    if seen > _MAX_ENTRIES or time.monotonic() > until:
                        return _counted(files, size, paths, complete=False)
                    if not stat.S_ISREG(file.status.st_mode):
                        continue
                    if not self._changed(f"{layer}/{file.path}", file.status):
                        continue
                    files += 1
                    size += file.status.st_size
                    new = _outermost_new(f"{target.rstrip('/')}/{file.path}")
                    count = paths.setdefault(new, [0, 0])
                    count[0] += 1
                    count[1] += file.status.st_size
        return _counted(files, size, paths, complete=True)

    def _copy(self, path: str, collect: dict[str, Any], size: int) -> dict[str, Any]:
        """Copy the content of one path to a directory of the machine, `size` bytes or less."""
        copy = _Copy(collect["to"])
        if collect.get("budget"):
            copy.limit = budget.take(collect["budget"], size)
        try:
            if collect.get("source"):
                top = os.open(collect["source"], os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
                try:
                    copy.tree(top, collect["below"], lambda _path, _status: True)
                finally:
                    os.close(top)
            elif self._descriptor >= 0:
                for layer, target in self._layers:
                    self._copy_layer(copy, layer, target, path)
        except OSError as error:
            copy.problem = f"{error.filename or path}: {error.strerror or error}"
        return {
            "path": collect["path"],
            "to": collect["to"],
            "files": copy.files,
            "bytes": copy.bytes,
            "problem": copy.problem,
        }

    def _copy_layer(self, copy: _Copy, layer: str, target: str, path: str) -> None:
        def is_new(below: str, status: os.stat_result) -> bool:
            return self._changed(f"{layer}/{below}", status)

        with _opened(self._descriptor, layer) as top:
            if _is_within(target, path):
                copy.tree(top, "", is_new, into=target[len(path) :].strip("/"))
            elif _is_within(path, target):
                copy.tree(top, path[len(target) :].strip("/"), is_new)


class _Copy:
    """Files copied to one directory; links are copied as links."""

    def __init__(self, to: str) -> None:
        self.to = to
        self.files = 0
        self.bytes = 0
        self.problem = ""
        self.limit: int | None = None

    def tree(
        self,
        top: int,
        below: str,
        is_new: Callable[[str, os.stat_result], bool],
        into: str = "",
    ) -> None:
        """Copy a file, or the content of a directory.

        Args:
            top: A directory.
            below: A path relative to it, without links; may be missing.
            is_new: Returns whether to copy a file, by its path relative to `top`.
            into: A path below the destination.
        """
        parents, _, last = below.rpartition("/")
        try:
            with _opened(top, parents) as parent:
                status = os.stat(last or ".", dir_fd=parent, follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    if is_new(below, status):
                        self._entry(_File(last, status, parent, last), into)
                    return
                with _opened(parent, last) as directory:
                    for file in _files(directory, () if self.limit is None else _CACHES):
                        if is_new(f"{below}/{file.path}".lstrip("/"), file.status):
                            self._entry(file, into)
        except (FileNotFoundError, NotADirectoryError) as error:
            # The path may not exist; but a file that vanishes during the copy is a problem.
            if self.files:
                self.problem = f"{error.filename}: {error.strerror}"

    def _entry(self, file: _File, into: str) -> None:
        """Copy a file or a link."""
        target = f"{self.to}/{into}/{file.path}"
        if stat.S_ISLNK(file.status.st_mode):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with suppress(FileNotFoundError):
                os.unlink(target)
            os.symlink(os.readlink(file.name, dir_fd=file.parent), target)
        elif stat.S_ISREG(file.status.st_mode):
            if self.limit is not None and (
                self.bytes + file.status.st_size > self.limit or self.files >= _MAX_ENTRIES
            ):
                self.problem = "too large"
                return
            os.makedirs(os.path.dirname(target), exist_ok=True)
            self.bytes += _copy_file(file.parent, file.name, target)
            self.files += 1


def _copy_file(top: int, source: str, target: str) -> int:
    original = os.open(source, _FLAGS, dir_fd=top)
    try:
        found = os.fstat(original)
        with suppress(FileNotFoundError):
            os.unlink(target)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        copy = os.open(target, flags, 0o600)
        size = 0
        try:
            while data := os.read(original, _CHUNK):
                size += len(data)
                while data:
                    data = data[os.write(copy, data) :]
            os.fchmod(copy, found.st_mode & 0o777)
            os.utime(copy, ns=(found.st_atime_ns, found.st_mtime_ns))
        finally:
            os.close(copy)
        return size
    finally:
        os.close(original)


class _File(NamedTuple):
    """A file of any kind except a directory: `name` in the directory `parent`."""

    path: str
    status: os.stat_result
    parent: int
    name: str


def _files(directory: int, skip: Collection[str] = (), path: str = "") -> Iterator[_File]:
    """Yield everything below a directory except directories, by path relative to it.

    No link is followed, even if the tree changes meanwhile. Entries that cannot be read or are too
    deep are omitted, and so are caches if there are names to `skip`.
    """
    for entry in os.scandir(directory):
        below = f"{path}{entry.name}"
        try:
            if not entry.is_dir(follow_symlinks=False):
                yield _File(below, entry.stat(follow_symlinks=False), directory, entry.name)
                continue
            if entry.name in skip or below.count("/") >= _MAX_DEPTH:
                continue
            inner = os.open(entry.name, _DIRECTORY, dir_fd=directory)
        except OSError:
            continue
        try:
            if not (skip and _is_tagged(inner)):
                yield from _files(inner, skip, f"{below}/")
        finally:
            os.close(inner)


def _is_tagged(directory: int) -> bool:
    try:
        tag = os.open(_TAG, _FLAGS, dir_fd=directory)
    except OSError:
        return False
    try:
        return os.read(tag, len(_TAG_CONTENT)) == _TAG_CONTENT
    except OSError:
        return False
    finally:
        os.close(tag)


@contextmanager
def _opened(top: int, path: str) -> Iterator[int]:
    """Open a directory below another one without following links."""
    descriptor = os.open(".", _DIRECTORY, dir_fd=top)
    try:
        for part in path.split("/"):
            if part:
                inner = os.open(part, _DIRECTORY, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _identity(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _outermost_new(path: str) -> str:
    """Return the outermost directory of a path that does not exist on the machine."""
    parts = path.strip("/").split("/")
    for count in range(1, len(parts)):
        directory = "/" + "/".join(parts[:count])
        if not os.path.isdir(directory):
            return directory
    return path


def _counted(
    files: int, size: int, paths: dict[str, list[int]], *, complete: bool
) -> dict[str, Any]:
    while len(paths) > _MAX_PATHS:
        # Merge the deepest paths of the same directory.
        deepest = max(path.count("/") for path in paths)
        merged: dict[str, list[int]] = {}
        for path, (number, length) in paths.items():
            place = os.path.dirname(path) if path.count("/") == deepest > 1 else path
            count = merged.setdefault(place, [0, 0])
            count[0] += number
            count[1] += length
        if len(merged) == len(paths) and deepest <= 1:
            break
        paths = merged
    # Names may be any bytes, JSON is UTF-8.
    paths = {os.fsencode(path).decode(errors="replace"): count for path, count in paths.items()}
    listed = [[path, *count] for path, count in paths.items()][:_MAX_PATHS]
    return {"files": files, "bytes": size, "complete": complete, "paths": listed}
