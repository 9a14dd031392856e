"""Run a command whose temporary files are in memory: python -m hack.inmemory COMMAND...

Creating a file on a disk can take 40 times the CPU time that it takes in memory, and the fast
tests create tens of thousands. It needs root, as in CI, and util-linux. Without them, or if memory
is short, the command runs as it is. The files end with the command.

The exit code is that of the command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

NEEDED = 4 * 1024**3
"""Bytes of memory that have to be available; the files of the fast tests take less at a time."""

# In a mount namespace of its own: nothing to unmount, however the command ends.
_WITHIN = ["unshare", "--mount", "sh", "-ec"]
_MOUNT = 'mount -t tmpfs -o mode=1777 tmpfs "$TMPDIR"; exec "$@"'


def available(meminfo: str) -> int:
    """Return the bytes of memory that are available.

    Args:
        meminfo: The text of /proc/meminfo; empty where there is none.
    """
    values = dict(line.split(":", 1) for line in meminfo.splitlines())
    return int(values.get("MemAvailable", "0 kB").split()[0]) * 1024


def prefix(variables: dict[str, str]) -> list[str]:
    """Return what has to precede a command, to have a tmpfs at ``TMPDIR``; empty if it cannot be.

    Args:
        variables: The environment of the command.
    """
    meminfo = Path("/proc/meminfo")
    if available(meminfo.read_text() if meminfo.exists() else "") < NEEDED:
        return []
    found = [*_WITHIN, _MOUNT, "sh"]
    try:
        tried = subprocess.run([*found, "true"], env=variables, capture_output=True, check=False)
    except FileNotFoundError:
        return []
    return found if tried.returncode == 0 else []


def run(command: list[str]) -> int:
    """Run a command, and return its exit code, as a shell does."""
    with tempfile.TemporaryDirectory(prefix="traincrew-tests-") as place:
        Path(place).chmod(0o1777)
        variables = {**os.environ, "TMPDIR": place}
        before = prefix(variables)
        # A terminal interrupts the command as well, which then ends in its own time.
        signal.signal(signal.SIGINT, lambda *_: None)
        with subprocess.Popen([*before, *command], env=variables if before else None) as process:
            signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
            code = process.wait()
        return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
