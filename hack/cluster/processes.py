"""Processes that outlive the command that started them, and can be found by another one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

STOP_SECONDS = 10


class NotReady(Exception):
    """Something did not become ready in time, or ended; the message ends with its log."""


@dataclass(frozen=True)
class Process:
    """A program of the cluster: its command line and pid are files, its output is a log.

    Attributes:
        name: Unique in the cluster; names the log.
        directory: Directory of command lines and pids.
        log: File to which standard output and error are appended.
    """

    name: str
    directory: Path
    log: Path

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        try:
            pid, birth = map(int, (self.directory / f"{self.name}.pid").read_text().split())
        except (FileNotFoundError, ValueError):
            return None
        return pid if _birth(pid) == birth else None

    def start(self, command: list[str] | None = None) -> None:
        """Start it, detached; with the command line of the previous start unless one is given."""
        if self.pid is not None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        recorded = self.directory / f"{self.name}.json"
        if command is None:
            command = json.loads(recorded.read_text())
        else:
            recorded.write_text(json.dumps(command))
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd="/",
            )
        _children.append(child)
        (self.directory / f"{self.name}.pid").write_text(f"{child.pid} {_birth(child.pid)}")

    def command(self) -> list[str]:
        """Return the command line of its last start."""
        found: list[str] = json.loads((self.directory / f"{self.name}.json").read_text())
        return found

    def kill(self) -> None:
        """Kill it without a chance to clean up, and wait for its end."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it gracefully; kill it if it takes longer than :data:`STOP_SECONDS`."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Stop it and start it again with the same command line."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it: it keeps its connections but does not answer."""
        if (pid := self.pid) is not None:
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a frozen process."""
        if (pid := self.pid) is not None:
            os.kill(pid, signal.SIGCONT)

    def _end(self, number: signal.Signals) -> None:
        pid = self.pid
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            # A frozen process reacts only to SIGKILL.
            os.kill(pid, signal.SIGCONT)
        deadline = time.monotonic() + STOP_SECONDS
        while self.pid is not None:
            if time.monotonic() > deadline:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def wait(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until a condition shows that it is ready.

        Raises:
            NotReady: It ended, or took longer.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            if self.pid is None:
                raise NotReady(f"{self.name} ended while starting\n{self.tail()}")
            if time.monotonic() > deadline:
                raise NotReady(f"{self.name} is not ready after {seconds:.0f} s\n{self.tail()}")
            time.sleep(0.05)

    def tail(self, lines: int = 20) -> str:
        """Return the end of its log, under the log's name."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join([f"--- {self.log}", *text.splitlines()[-lines:]])


# Kept so that Popen does not warn about children that are meant to outlive it.
_children: list[subprocess.Popen[bytes]] = []


def _birth(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot, since pids are reused."""
    for child in _children:
        if child.pid == pid:
            child.poll()
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return None
    # While threads remain, a process whose first one has ended still holds its ports and files.
    return None if fields[0] in "ZX" and len(threads) <= 1 else int(fields[19])
