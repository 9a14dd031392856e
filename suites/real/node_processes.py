"""The processes of pods on the real cluster, whose nodes are on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path

_FIRST = re.compile(r"^NSpid:.*\t1$", re.MULTILINE)


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


def kill_container(uid: str, word: str) -> None:
    """Kill the first process of a container of a pod, and by that all others.

    Args:
        uid: The pod's.
        word: Something in the command line of that process.
    """
    for pid in of_pod(uid):
        with contextlib.suppress(OSError):
            is_first = _FIRST.search(Path(f"/proc/{pid}/status").read_text())
            if is_first and word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                return
    raise AssertionError(f"pod {uid}: no container with {word!r} in its command line runs")
