"""The processes of pods on the real cluster, whose nodes are on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def of_pod(uid: str) -> list[int]:
    """Return all processes of a pod, on whichever node; none if it has ended.

    Args:
        uid: The pod's, which is in the names of its cgroups.
    """
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if uid in (entry / "cgroup").read_text():
                found.append(int(entry.name))
    return found


def kill(uid: str, word: str) -> None:
    """Kill the process of a pod with this word in its command line, as the OOM killer would.

    It cannot be done from within: the first process of a pid namespace is protected.
    """
    for pid in of_pod(uid):
        with contextlib.suppress(OSError):
            if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                return
    raise AssertionError(f"pod {uid}: no process with {word!r} in its command line runs")
