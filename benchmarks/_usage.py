"""CPU time and memory of processes, from /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process and of its finished children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def machine_busy_seconds() -> float:
    """Return the CPU time of the whole machine since it was started, without idle time."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, irq, soft, *_ = map(int, fields)
    return (user + nice + system + irq + soft) / _TICKS


def resident_mebibytes(pid: int | str = "self") -> float:
    """Return the current resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak_mebibytes(pid: int) -> float:
    """Return the peak resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


class Usage(NamedTuple):
    """CPU seconds used between two moments."""

    by_process: dict[str, float]
    others: float
    """Used by unrelated programs, which disturb the measurement."""

    @property
    def total(self) -> float:
        """All of the processes together."""
        return sum(self.by_process.values())


class Meter:
    """Measures the CPU time of processes since its creation.

    Args:
        pids: Process ids by displayed name.
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
