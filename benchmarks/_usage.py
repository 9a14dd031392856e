"""CPU time and memory of processes, from /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def machine_busy_seconds() -> float:
    """CPU time of everything on the machine since it was started, idle time left out."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, irq, soft, *_ = map(int, fields)
    return (user + nice + system + irq + soft) / _TICKS


def resident_mebibytes(pid: int | str = "self") -> float:
    """Resident memory of a process now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak_mebibytes(pid: int) -> float:
    """Largest resident memory the process ever had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


class Usage(NamedTuple):
    """CPU seconds used between two moments."""

    by_process: dict[str, float]
    others: float
    """By programs that have nothing to do with the measurement: they disturb it."""


class Meter:
    """Measures what processes use from its creation on.

    Args:
        pids: By the name that is shown.
    """

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self._before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        self._machine = machine_busy_seconds()

    def read(self) -> Usage:
        """CPU seconds used so far."""
        used = {name: cpu_seconds(pid) - self._before[name] for name, pid in self._pids.items()}
        whole = machine_busy_seconds() - self._machine
        return Usage(used, max(0.0, whole - sum(used.values())))
