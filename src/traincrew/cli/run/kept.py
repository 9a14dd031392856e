"""What pods of a run wrote, kept for a day in case somebody wants it after all.

One directory per run, below a directory in the cache that only its owner can read. The bytes of a
run, the number of runs and their age are bounded: whatever runs next removes what is beyond.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from traincrew.engine.decoding import UndecodableError, decode_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from traincrew.local.node import ClaimContents

__all__ = ["Kept", "KeptRun", "kept_runs", "remove_kept"]

KEPT_SECONDS = 24 * 3600
MOST_RUNS = 3
MOST_BYTES = 512 << 20
"""Of one run; containers take from it in the order in which they end, claims come last."""
_MOST_ENTRIES = 1000
"""Directories that are looked at."""
_DIRECTORY = re.compile(r"\d{8}-\d{6}-[a-z0-9-]{1,60}-[0-9a-f]{6}")


class KeptRun(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run whose files are kept.

    Attributes:
        job: Kind and name of its job.
        ended: When it ended, in seconds since the epoch.
        files: Number of files.
        bytes: Their total size.
        directory: Where they are.
    """

    job: str
    ended: float
    files: int
    bytes: int
    directory: str = ""


class Kept:
    """The directory for the files of one run.

    Args:
        job: Kind and name of its job.
    """

    def __init__(self, job: str) -> None:
        self._job = job
        name = re.sub(r"[^a-z0-9]+", "-", job.lower()).strip("-")[:60] or "run"
        stamp = time.strftime("%Y%m%d-%H%M%S")
        self.directory = _root() / f"{stamp}-{name}-{secrets.token_hex(3)}"
        self._lock: int | None = None

    def prepare(self) -> bool:
        """Create the directory, and remove old ones; return whether files can be kept."""
        from traincrew.local.directories import private_directory
        from traincrew.local.filelocks import try_lock

        _sweep(MOST_RUNS - 1)
        try:
            private_directory(_root())
            private_directory(self.directory)
            (self.directory / "budget").write_text(str(MOST_BYTES))
            self._lock = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try_lock(self._lock, shared=True)
        except OSError:
            return False
        return True

    def keep_claims(self, claims: Sequence[ClaimContents]) -> list[ClaimContents]:
        """Move the contents of claims here; return those that are kept."""
        from traincrew.local.node.sandbox.budget import take

        kept = []
        for claim in claims:
            budget = str(self.directory / "budget")
            if not claim.complete or take(budget, claim.bytes) < claim.bytes:
                continue
            place = self.directory / "claims" / claim.namespace / claim.name
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(claim.directory, place)
            except (OSError, shutil.Error):
                continue
            kept.append(claim)
        return kept

    def finish(self, files: int, size: int) -> None:
        """Note what is kept; without files, remove the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        with suppress(OSError):
            (self.directory / "budget").unlink()
        if files:
            run = KeptRun(job=self._job, ended=time.time(), files=files, bytes=size)
            with suppress(OSError):
                (self.directory / "run.json").write_bytes(msgspec.json.encode(run))
                return
        _remove(self.directory)


def kept_runs() -> list[KeptRun]:
    """Return the runs of this user whose files are kept, the newest first."""
    _sweep(MOST_RUNS)
    return [run for path in _directories() if (run := _read(path)) is not None]


def remove_kept() -> int:
    """Remove all files that are kept; return of how many runs."""
    runs = kept_runs()
    for run in runs:
        _remove(_root() / run.directory.rpartition("/")[2])
    return len(runs)


def _root() -> Path:
    from traincrew.local.directories import default_cache

    return default_cache().absolute() / "kept"


def _directories() -> list[Path]:
    """Return the directories of runs, the newest first; none that others could have put there."""
    from traincrew.local.directories import is_safe_parent

    if not is_safe_parent(_root()):
        return []
    try:
        found = [each for each in _root().iterdir() if _DIRECTORY.fullmatch(each.name)]
    except OSError:
        return []
    return sorted((each for each in found if not each.is_symlink()), reverse=True)[:_MOST_ENTRIES]


def _read(path: Path) -> KeptRun | None:
    """Return what is noted of a run; None while it is running, or if it was killed."""
    try:
        run = decode_json((path / "run.json").read_bytes(), type=KeptRun)
    except (OSError, UndecodableError):
        return None
    return msgspec.structs.replace(run, directory=str(path))


def _sweep(most: int) -> None:
    """Remove what is older than a day, and all but the newest runs that have ended."""
    left = most
    for path in _directories():
        run = _read(path)
        try:
            ended = run.ended if run is not None else path.stat().st_mtime
        except OSError:
            continue
        old = abs(time.time() - ended) >= KEPT_SECONDS
        if run is not None:
            left -= 1
            if left < 0 or old:
                _remove(path)
        elif old and not _is_running(path):  # it was killed
            _remove(path)


def _is_running(path: Path) -> bool:
    """Return whether the run of a directory is still there; it may last longer than a day."""
    from traincrew.local.filelocks import try_lock

    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return not try_lock(directory)
    except OSError:
        return False
    finally:
        os.close(directory)


def _remove(path: Path) -> None:
    from traincrew.local.directories import remove_tree

    with suppress(OSError):
        remove_tree(path)
