"""The processes of pods on the embedded cluster, as this machine shows them.

Pods of the real cluster may have the same names at the same time. They are on this machine, too, in
cgroups of a kubelet, which pods of the embedded cluster are not.
"""

from __future__ import annotations

import re
from pathlib import Path

_FIRST = re.compile(rb"^NSpid:.*\t1$", re.MULTILINE)


def of_pods(pattern: str) -> list[int]:
    """Return the processes of the pods whose names match a pattern.

    Args:
        pattern: Of the whole name.
    """
    wanted = re.compile(rb"HOSTNAME=(?:" + pattern.encode() + rb")")
    return [
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if any(wanted.fullmatch(each) for each in _read(process / "environ").split(b"\0"))
        and b"/kubepods" not in _read(process / "cgroup")
    ]


def first_of_pods(pattern: str) -> list[int]:
    """Return the first processes of the containers of those pods.

    Nobody in the pod can kill them: the first process of a pid namespace is protected from there.
    A child that one of them has just made looks like it until it runs a program of its own.
    """
    return [pid for pid in of_pods(pattern) if _FIRST.search(_read(Path(f"/proc/{pid}/status")))]


def _read(path: Path) -> bytes:
    """What /proc says of a process; nothing if that has ended or is not ours."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
