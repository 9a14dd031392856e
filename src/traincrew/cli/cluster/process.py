"""Identifies, signals and awaits processes that are not our children."""

from __future__ import annotations

import os
import select
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal

_POLL_SECONDS = 0.05


def start_token(pid: int) -> str | None:
    """Return a token that distinguishes a process from a later one with the same PID.

    Returns:
        The start time of the process, in a form only meant for comparison; None if there is no such
        process or it is a zombie.
    """
    stat = Path(f"/proc/{pid}/stat")
    if not Path("/proc/self/stat").exists():
        return _start_token_from_ps(pid)
    try:
        # The name in parentheses may itself contain spaces and parentheses.
        fields = stat.read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return None if fields[0] in "ZX" else f"{boot}:{fields[19]}"


def _start_token_from_ps(pid: int) -> str | None:
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return started.strip() if state and not state.startswith("Z") else None


def is_same(pid: int, token: str) -> bool:
    """Return whether the process with this token still runs."""
    return start_token(pid) == token


def send(pid: int, token: str, number: signal.Signals) -> bool:
    """Send a signal to a process if it is still the same one; return whether it was."""
    if not is_same(pid, token):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def wait_until_ended(pid: int, token: str, timeout: float) -> bool:
    """Wait at most ``timeout`` seconds until a process has ended; return whether it has."""
    deadline = time.monotonic() + timeout
    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return not is_same(pid, token)
        try:
            if is_same(pid, token):
                poll = select.poll()
                poll.register(descriptor, select.POLLIN)
                poll.poll(max(0.0, timeout) * 1000)
        finally:
            os.close(descriptor)
        return not is_same(pid, token)
    while is_same(pid, token) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return not is_same(pid, token)
