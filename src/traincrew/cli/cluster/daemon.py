"""Starts and stops the background process of a cluster."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from traincrew.cli.cluster import daemonlog, process
from traincrew.cli.cluster.files import home
from traincrew.cli.errors import BadInput, CommandFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from traincrew.cli.cluster.files import ClusterFiles, Record


START_SECONDS = 60.0
STOP_SECONDS = 30.0
LOG_LINES_SHOWN = 15


def spawn(files: ClusterFiles, say: Callable[[str], None]) -> Record:
    """Start the process that serves a cluster and wait until the cluster is ready.

    The caller holds the lock and has written the options.

    Args:
        files: The cluster.
        say: Called with each line of progress.

    Raises:
        BadInput: The options cannot be used, or not on this machine.
        CommandFailed: The cluster did not become ready; the message has the end of its log.
    """
    _rotate(files.log)
    log = os.open(files.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    started_at = os.fstat(log).st_size
    ours, theirs = os.pipe()
    try:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "traincrew.cli.cluster.server", files.name, str(theirs)],
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
        # The child outlives us: this keeps the interpreter from warning about it.
        child.returncode = 0
        return state.record
    _end_child(child)
    message = failure or "its process ended"
    tail = _tail(files.log, started_at, message)
    raise CommandFailed(f"cluster {files.name!r} did not start: {message}{tail}")


def _await_report(descriptor: int, say: Callable[[str], None]) -> str | None:
    """Read the reports of the new process; return None once it is ready, else the error.

    Raises:
        BadInput: The options cannot be used, or not on this machine.
    """
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
            if "refused" in report:
                raise BadInput(str(report["refused"]))
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
        if log.stat().st_size > daemonlog.BYTES_KEPT:
            log.replace(log.with_suffix(".log.1"))


def _tail(log: Path, start: int, message: str) -> str:
    """Return the end of a log, from a position on, as a suffix of a message.

    Empty if the log contains only the message.
    """
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").rstrip().splitlines()
        if lines == [message]:
            return ""
        if lines:
            shown = "\n".join(f"  {line}" for line in lines[-LOG_LINES_SHOWN:])
            return f"\nThe end of {log}:\n{shown}"
    return f"\nIts log {log} is empty."


def stop(files: ClusterFiles, *, keep_pods: bool) -> None:
    """Stop the process of a cluster, if there is one. The caller holds the lock.

    Args:
        files: The cluster.
        keep_pods: Leave the pods running, to be adopted by the next start.

    Raises:
        CommandFailed: The process does not end, even after SIGKILL, or is not known.
    """
    record = files.state().record
    if record is None:
        return
    if not record.pid:
        raise CommandFailed(
            f"cluster {files.name!r} is served by a process that cannot be identified; end the "
            f"process that has {files.directory / 'serving.lock'} open"
        )
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
