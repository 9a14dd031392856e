"""The memory limit of containers: their processes are weighed once a second.

There are no control groups here (unprivileged users have none to give), so a limit is enforced
late rather than exactly: a container above it is killed and shown as `OOMKilled`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traincrew.local.node.instances import Instance

__all__ = ["MemoryWatch"]

_PERIOD_SECONDS = 1.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Watched(NamedTuple):
    instance: Instance
    limit: int
    on_kill: Callable[[int], None]


class MemoryWatch:
    """Kills containers that use more memory than they may."""

    def __init__(self, *, namespaces: bool) -> None:
        """Make one.

        Args:
            namespaces: Containers have their own process namespace, which tells their processes.
        """
        self._namespaces = namespaces
        self._watched: dict[Path, _Watched] = {}
        self._wake = asyncio.Event()

    def watch(self, instance: Instance, limit: int, on_kill: Callable[[int], None]) -> None:
        """Watch an instance until `forget`; `on_kill` hears what it used, in bytes."""
        self._watched[instance.directory] = _Watched(instance, limit, on_kill)
        self._wake.set()

    def forget(self, instance: Instance) -> None:
        """Watch an instance no longer."""
        self._watched.pop(instance.directory, None)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            if not self._watched:
                self._wake.clear()
                await self._wake.wait()
            await asyncio.sleep(_PERIOD_SECONDS)
            if sys.platform == "linux":
                self._check()

    def _check(self) -> None:
        groups = _by_namespace() if self._namespaces else _by_session()
        for watched in list(self._watched.values()):
            processes = watched.instance.processes()
            if processes is None or processes[1] is None:
                continue
            program = processes[1].pid
            key = _namespace_of(program) if self._namespaces else program
            members = groups.get(key, []) if key else []
            used = sum(_resident(member) for member in members)
            if used <= watched.limit:
                continue
            # Shared pages were counted once per process; the exact sum is dearer.
            used = sum(_proportional(member) for member in members)
            if used > watched.limit:
                self.forget(watched.instance)
                watched.instance.note_out_of_memory()
                watched.on_kill(used)
                watched.instance.kill()


def _processes() -> Iterable[int]:
    return (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())


def _namespace_of(process: int) -> int:
    try:
        return os.stat(f"/proc/{process}/ns/pid").st_ino  # noqa: PTH116  # hot
    except OSError:
        return 0


def _by_namespace() -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for process in _processes():
        if namespace := _namespace_of(process):
            groups.setdefault(namespace, []).append(process)
    return groups


def _by_session() -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for process in _processes():
        with contextlib.suppress(OSError):
            groups.setdefault(os.getsid(process), []).append(process)
    return groups


def _resident(process: int) -> int:
    try:
        fields = Path(f"/proc/{process}/statm").read_text().split()
    except OSError:
        return 0
    return int(fields[1]) * _PAGE


def _proportional(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return _resident(process)
    for line in lines:
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0
