"""The directories of clusters with a background process.

A cluster has one directory (mode 0700) under `home()`. The process that serves it holds a lock
there for its life (`local.statelock`), so that it is found whatever becomes of its record. The
record has its PID, with its start time: a later process with the same PID is not mistaken for it.
Commands that start or stop a cluster hold another lock in the directory.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from traincrew.cli.cluster import process
from traincrew.cli.cluster.options import Options
from traincrew.cli.errors import BadInput, CommandFailed
from traincrew.engine.decoding import UndecodableError, decode_json
from traincrew.local.directories import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator


DEFAULT_NAME = "default"
LOCK_SECONDS = 90.0
MERGED = "merged.json"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


class Record(msgspec.Struct, kw_only=True):
    """The process that serves a cluster."""

    pid: int
    token: str
    version: str
    server: str = ""
    ready: bool = False


class State(NamedTuple):
    """The state of a cluster, determined from its directory."""

    kind: Literal["absent", "stopped", "crashed", "starting", "running"]
    record: Record | None = None


def home() -> Path:
    """Return the directory of the user's clusters, `$TRAINCREW_HOME` or in the XDG data home."""
    if configured := os.environ.get("TRAINCREW_HOME"):
        return Path(configured).expanduser().absolute()
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "traincrew"


class ClusterFiles:
    """The files of one named cluster."""

    def __init__(self, name: str) -> None:
        """Set the paths of the files.

        Raises:
            BadInput: The name is not valid for a cluster.
        """
        if not _NAME.fullmatch(name):
            raise BadInput(
                f"{name!r} cannot be a cluster's name: use at most 40 lower case letters, digits "
                "and '-', with a letter or digit at both ends"
            )
        self.name = name
        self.directory = home() / "clusters" / name
        self.record = self.directory / "daemon.json"
        self.options = self.directory / "options.json"
        self.log = self.directory / "daemon.log"
        self.kubeconfig = self.directory / "kubeconfig"
        self.node = self.directory / "node"
        self.merged = self.directory / MERGED
        """List of the user's kubeconfig files that this cluster was merged into."""

    def make(self) -> None:
        """Create the directory, accessible only to its owner.

        Raises:
            CommandFailed: Another user owns it, or could replace it.
        """
        from traincrew.local.directories import private_directory

        if not home().exists():
            private_directory(home())
        self._require_own()
        for directory in (self.directory.parent, self.directory):
            private_directory(directory)

    def _require_own(self) -> None:
        """Check that no other user could have put something into the directory.

        Raises:
            CommandFailed: Another user owns it, or could replace it.
        """
        from traincrew.local.directories import is_safe_parent

        if home().exists() and not is_safe_parent(home()):
            raise CommandFailed(
                f"{home()} cannot hold clusters: it belongs to another user, or other users can "
                "rename what is in it; set TRAINCREW_HOME to a directory of your own"
            )
        for path in (self.directory.parent, self.directory):
            with contextlib.suppress(FileNotFoundError):
                if path.lstat().st_uid != os.geteuid():
                    raise CommandFailed(
                        f"{path} belongs to another user; set TRAINCREW_HOME to a directory of "
                        "your own"
                    )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock out other commands that start or stop this cluster.

        Raises:
            CommandFailed: Another command held the lock for too long.
        """
        from traincrew.local.filelocks import is_named, try_lock

        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            self.make()
            path = self.directory / "lock"
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                continue  # the directory was removed meanwhile
            if not try_lock(descriptor):
                os.close(descriptor)
                if time.monotonic() > deadline:
                    raise CommandFailed(
                        f"another traincrew command has been working on cluster {self.name!r} for "
                        f"{LOCK_SECONDS:.0f} s; see `ps` for it, and {self.log}"
                    )
                time.sleep(0.05)
                continue
            # The previous holder of the lock may have removed the directory, and this file with it.
            if is_named(path, descriptor):
                break
            os.close(descriptor)
        try:
            yield
        finally:
            os.close(descriptor)

    def state(self) -> State:
        """Return whether the cluster exists and is served.

        Raises:
            CommandFailed: Another user owns the directory, or could replace it.
            OSError: Its files cannot be read.
        """
        from traincrew.local.statelock import holder_of

        self._require_own()
        record = self._read_record()
        holder = holder_of(self.directory)
        if record is not None and not process.is_same(record.pid, record.token):
            if holder is None:
                return State("crashed", record)
            record = None
        if record is None and holder is not None:
            token = process.start_token(holder.pid) or ""
            record = Record(
                pid=holder.pid,
                token=token,
                version="",
                server=holder.server,
                ready=bool(holder.server),
            )
        if record is not None:
            return State("running" if record.ready else "starting", record)
        if self.has_pods():
            return State("crashed")
        used = (self.directory / "state.db").exists()
        return State("stopped" if used else "absent")

    def has_pods(self) -> bool:
        """Return whether pods have files here; some may be running if nobody serves the cluster."""
        try:
            with os.scandir(self.node / "pods") as entries:
                return any(entries)
        except FileNotFoundError:
            return False

    def forget_own_record(self) -> None:
        """Remove the record if it is of this process."""
        record = self._read_record()
        if record is not None and record.pid == os.getpid():
            self.record.unlink(missing_ok=True)

    @contextlib.contextmanager
    def unserved(self) -> Iterator[None]:
        """Let no process serve the cluster.

        Raises:
            CommandFailed: A process serves it.
        """
        from traincrew.local.statelock import StateInUseError, StateLock

        try:
            lock = StateLock(self.directory)
        except StateInUseError as error:
            raise CommandFailed(f"{error}; nothing of it was removed") from error
        try:
            yield
        finally:
            lock.release()

    def _read_record(self) -> Record | None:
        try:
            return decode_json(self.record.read_bytes(), type=Record)
        except (FileNotFoundError, UndecodableError):
            return None

    def read_options(self) -> Options | None:
        """Return the options the cluster was last started with."""
        try:
            return decode_json(self.options.read_bytes(), type=Options)
        except (FileNotFoundError, UndecodableError):
            return None

    def remove(self) -> None:
        """Remove the directory and its contents.

        It is renamed first: a command that waits for the lock would create a new lock file in a
        partly removed directory. The caller holds the lock of `unserved`.

        Raises:
            CommandFailed: A file in it cannot be removed.
        """
        removed = self.directory.with_name(f".{self.name}.removed")
        try:
            if removed.exists():  # left by an interrupted removal
                remove_tree(removed)
            self.directory.rename(removed)
            remove_tree(removed)
        except FileNotFoundError:
            return
        except OSError as error:
            raise CommandFailed(
                f"cannot remove {error.filename}: {error.strerror}; remove {removed} by hand"
            ) from error
        for parent in (self.directory.parent, home()):
            with contextlib.suppress(OSError):  # it contains other clusters
                parent.rmdir()


def write_file(path: Path, content: object) -> None:
    """Replace a small file atomically, readable only by its owner."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
    temporary.replace(path)


def all_clusters() -> list[ClusterFiles]:
    """Return every cluster of this user that has a directory."""
    try:
        entries = sorted(entry.name for entry in (home() / "clusters").iterdir() if entry.is_dir())
    except FileNotFoundError:
        return []
    return [ClusterFiles(name) for name in entries if _NAME.fullmatch(name)]


def own_record(server: str) -> Record:
    """Return the record of this process, which serves a cluster at this URL."""
    from importlib.metadata import version

    token = process.start_token(os.getpid())
    assert token is not None
    return Record(
        pid=os.getpid(), token=token, version=version("traincrew"), server=server, ready=True
    )
