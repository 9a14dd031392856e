"""The clusters of `traincrew run` that live now, so that `ui`, `list`, `watch` … find them.

Such a cluster ends with its run, and has no directory under `clusters`. A run writes one file in
``runs``, named by its PID, and removes it before its cluster ends. What killed processes have left
there is removed by whoever finds it.

A page that shows the cluster holds a shared lock of that file. The run removes the file and waits
for a moment until nobody holds one, so that a page has what happened last.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

import msgspec

from traincrew.cli.cluster import process
from traincrew.cli.cluster.files import home, write_file
from traincrew.engine.decoding import UndecodableError, decode_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Run", "RunJob", "announce", "runs"]

MOST_RUNS = 1000
"""Files that are looked at."""
_ATTEMPTS = 5
LAST_SECONDS = 3.0
"""Seconds that a run waits at its end for those who watch."""
_POLL_SECONDS = 0.02


class RunJob(msgspec.Struct, frozen=True):
    """A job of a run."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that lives as long as a run.

    Attributes:
        pid: The process of the run.
        token: Tells the process from a later one with the same PID.
        kubeconfig: How to reach the cluster.
        jobs: What it runs.
    """

    pid: int
    token: str
    kubeconfig: str
    jobs: tuple[RunJob, ...] = ()

    @property
    def file(self) -> Path:
        """The file that announces it."""
        return _directory() / f"{self.pid}.json"

    def lives(self) -> bool:
        """Return whether the run still announces its cluster."""
        return self.file.exists() and process.is_same(self.pid, self.token)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Let the run wait at its end until this context is left."""
        from traincrew.local.filelocks import try_lock

        descriptor = _opened(self.file)
        try:
            if descriptor is not None:
                with contextlib.suppress(OSError):  # not every file system has locks
                    try_lock(descriptor, shared=True)
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)

    async def end(self) -> None:
        """Announce the cluster no more, and wait for a short time for those who watch it."""
        descriptor = _opened(self.file)
        self.withdraw()
        if descriptor is None:
            return
        try:
            async with asyncio.timeout(LAST_SECONDS):
                while _is_locked(descriptor):  # noqa: ASYNC110 - by other processes
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            pass
        finally:
            os.close(descriptor)

    def withdraw(self) -> None:
        """Announce the cluster no more."""
        with contextlib.suppress(OSError):
            self.file.unlink()
            self.file.parent.rmdir()  # unless there are others
            self.file.parent.parent.rmdir()


def announce(kubeconfig: str, jobs: tuple[RunJob, ...]) -> Run | None:
    """Let other commands find the cluster of this process.

    Returns:
        None if there is no directory for it: that does not keep a job from running.
    """
    from traincrew.local.directories import private_directory

    token = process.start_token(os.getpid())
    if token is None or not _is_safe():
        return None
    run = Run(pid=os.getpid(), token=token, kubeconfig=kubeconfig, jobs=jobs)
    for _ in range(_ATTEMPTS):
        try:
            for directory in (home(), _directory()):
                private_directory(directory)
            write_file(run.file, run)
        except FileNotFoundError:
            continue  # a run that has ended removed the directory meanwhile
        except OSError:
            return None
        return run
    return None


def runs() -> list[Run]:
    """Return the runs of this user that live now, in the order of their PIDs."""
    if not _is_safe():
        return []
    try:
        files = sorted(_directory().glob("[0-9]*.json"))[:MOST_RUNS]
    except OSError:
        return []
    found = []
    for file in files:
        try:
            run = decode_json(file.read_bytes(), type=Run)
        except (OSError, UndecodableError):
            continue
        if run.file != file:
            continue
        if run.lives():
            found.append(run)
        else:
            run.withdraw()
    return sorted(found, key=lambda run: run.pid)


def _opened(file: Path) -> int | None:
    try:
        return os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None


def _is_locked(descriptor: int) -> bool:
    from traincrew.local.filelocks import try_lock

    try:
        return not try_lock(descriptor)
    except OSError:
        return False


def _directory() -> Path:
    return home() / "runs"


def _is_safe() -> bool:
    """Return whether no other user can have put something into the directory."""
    from traincrew.local.directories import is_safe_parent

    if home().exists() and not is_safe_parent(home()):
        return False
    try:
        return _directory().lstat().st_uid == os.geteuid()
    except OSError:
        return True
