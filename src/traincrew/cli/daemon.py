"""Clusters that stay: their directories, and the process behind each.

A cluster lives in one directory (mode 0700) under `home()`. The process that serves it records
itself there, with the moment it started, so that a later process with the same number is not
taken for it. Commands that start or stop a cluster hold a lock in the directory meanwhile.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from traincrew.cli import process
from traincrew.cli.main import BadInput, CommandFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEFAULT_NAME = "default"
START_SECONDS = 60.0
STOP_SECONDS = 30.0
LOCK_SECONDS = 90.0
LOG_BYTES_KEPT = 4 * 1024 * 1024
LOG_LINES_SHOWN = 15

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a cluster is made; remembered, so that a restart makes the same one."""

    nodes: int = 1
    gpus: int | None = None
    images: tuple[str, ...] = ()
    sandbox: Literal["auto", "namespaces", "bare"] = "auto"
    operator: bool = True
    verbose: bool = False


class Record(msgspec.Struct, kw_only=True):
    """Which process serves a cluster."""

    pid: int
    token: str
    version: str
    server: str = ""
    ready: bool = False


class State(NamedTuple):
    """What is known of a cluster from its directory."""

    kind: Literal["absent", "stopped", "crashed", "starting", "running"]
    record: Record | None = None


def home() -> Path:
    """Where this user's clusters live: `$TRAINCREW_HOME`, or traincrew in the XDG data home."""
    if configured := os.environ.get("TRAINCREW_HOME"):
        return Path(configured).expanduser().absolute()
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "traincrew"


class ClusterFiles:
    """The files of one named cluster."""

    def __init__(self, name: str) -> None:
        """Name the files.

        Raises:
            BadInput: The name cannot be the name of a cluster.
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
        self.merged = self.directory / "merged.json"
        """Kubeconfig files of the user that this cluster was written into."""

    def make(self) -> None:
        """Make the directory, for its owner only."""
        self.directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory.mkdir(mode=0o700, exist_ok=True)
        self.directory.chmod(0o700)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others from starting or stopping this cluster.

        Raises:
            CommandFailed: Somebody else kept the lock for too long.
        """
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            self.make()
            path = self.directory / "lock"
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                continue  # the directory was removed in between
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                if time.monotonic() > deadline:
                    raise CommandFailed(
                        f"another traincrew command has been working on cluster {self.name!r} for "
                        f"{LOCK_SECONDS:.0f} s; see `ps` for it, and {self.log}"
                    ) from None
                time.sleep(0.05)
                continue
            # Whoever held the lock may have removed the directory, and with it this very file.
            try:
                current = path.stat().st_ino == os.fstat(descriptor).st_ino
            except FileNotFoundError:
                current = False
            if current:
                break
            os.close(descriptor)
        try:
            yield
        finally:
            os.close(descriptor)

    def state(self) -> State:
        """Tell whether the cluster is there and served."""
        try:
            record = msgspec.json.decode(self.record.read_bytes(), type=Record)
        except (FileNotFoundError, msgspec.MsgspecError):
            used = (self.directory / "state.db").exists()
            return State("stopped" if used else "absent")
        if not process.is_same(record.pid, record.token):
            return State("crashed", record)
        return State("running" if record.ready else "starting", record)

    def read_options(self) -> Options | None:
        """The options the cluster was last started with."""
        try:
            return msgspec.json.decode(self.options.read_bytes(), type=Options)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def remove(self) -> None:
        """Remove the directory with everything in it.

        It goes away at once: who waits for the lock would find a new one in what is left of it.

        Raises:
            CommandFailed: Something in it cannot be removed.
        """
        doomed = self.directory.with_name(f".{self.name}.removed")
        try:
            if doomed.exists():  # of a removal that was interrupted
                shutil.rmtree(doomed)
            self.directory.rename(doomed)
            shutil.rmtree(doomed)
        except FileNotFoundError:
            return
        except OSError as error:
            raise CommandFailed(
                f"cannot remove {error.filename}: {error.strerror}; remove {doomed} by hand"
            ) from error
        for parent in (self.directory.parent, home()):
            with contextlib.suppress(OSError):  # other clusters live there
                parent.rmdir()


def write_file(path: Path, content: object) -> None:
    """Replace a small file of ours as a whole, readable only for its owner."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
    temporary.replace(path)


def all_clusters() -> list[ClusterFiles]:
    """Every cluster of this user that left a directory."""
    try:
        entries = sorted(entry.name for entry in (home() / "clusters").iterdir() if entry.is_dir())
    except FileNotFoundError:
        return []
    return [ClusterFiles(name) for name in entries if _NAME.fullmatch(name)]


def own_record() -> Record:
    """The record of this very process."""
    from importlib.metadata import version

    token = process.start_token(os.getpid())
    assert token is not None
    return Record(pid=os.getpid(), token=token, version=version("traincrew"))


def spawn(files: ClusterFiles, say: Callable[[str], None]) -> Record:
    """Start the process that serves a cluster and wait until the cluster is ready.

    The caller holds the lock and has written the options.

    Args:
        files: The cluster.
        say: Called with progress, a line at a time.

    Raises:
        CommandFailed: It did not become ready; the message has the end of its log.
    """
    _rotate(files.log)
    log = os.open(files.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    started_at = os.fstat(log).st_size
    ours, theirs = os.pipe()
    try:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "traincrew.cli.server", files.name, str(theirs)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**os.environ, "TRAINCREW_HOME": str(home())},
            pass_fds=(theirs,),
            start_new_session=True,
        )
    finally:
        os.close(theirs)
        os.close(log)
    try:
        failure = _await_report(ours, say)
    except BaseException:
        _end_child(child)
        raise
    finally:
        os.close(ours)
    state = files.state()
    if failure is None and state.kind == "running":
        assert state.record is not None
        # The child outlives us: tell the interpreter not to warn about that.
        child.returncode = 0
        return state.record
    _end_child(child)
    message = failure or "its process ended"
    raise CommandFailed(
        f"cluster {files.name!r} did not start: {message}{_tail(files.log, started_at)}"
    )


def _await_report(descriptor: int, say: Callable[[str], None]) -> str | None:
    """Read what the new process reports; None once it is ready, else what went wrong."""
    deadline = time.monotonic() + START_SECONDS
    buffer = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return f"not ready after {START_SECONDS:.0f} s"
        chunk = os.read(descriptor, 65536)
        if not chunk:
            return "its process ended"
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            report = json.loads(line)
            if "ready" in report:
                return None
            if "failed" in report:
                return str(report["failed"])
            say(str(report["progress"]))


def _end_child(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _rotate(log: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > LOG_BYTES_KEPT:
            log.replace(log.with_suffix(".log.1"))


def _tail(log: Path, start: int) -> str:
    """The end of what a log got since a position, ready to follow a message."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").rstrip().splitlines()
        if lines:
            shown = "\n".join(f"  {line}" for line in lines[-LOG_LINES_SHOWN:])
            return f"\nThe end of {log}:\n{shown}"
    return f"\nIts log {log} is empty."


def stop(files: ClusterFiles, *, keep_pods: bool) -> None:
    """Stop the process that serves a cluster, if there is one. The caller holds the lock.

    Args:
        files: The cluster.
        keep_pods: Leave the pods running, for the next start to find them.

    Raises:
        CommandFailed: The process does not end, not even by force.
    """
    record = files.state().record
    if record is None:
        return
    number = signal.SIGUSR1 if keep_pods else signal.SIGTERM
    if process.send(record.pid, record.token, number):
        ended = process.wait_until_ended(record.pid, record.token, STOP_SECONDS)
        if not ended:
            process.send(record.pid, record.token, signal.SIGKILL)
            ended = process.wait_until_ended(record.pid, record.token, STOP_SECONDS)
        if not ended:
            raise CommandFailed(
                f"process {record.pid} of cluster {files.name!r} does not end, not even when "
                f"killed; see {files.log}"
            )
