"""The memory limit of containers, enforced by measuring their processes once a second.

There are no cgroups here (unprivileged users cannot create them), so a limit is enforced with a
delay: a container above it is killed and reported as `OOMKilled`.
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

    from traincrew.local.node.runtime.instances import Instance

__all__ = ["MemoryWatch"]

_PERIOD_SECONDS = 1.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Watched(NamedTuple):
    instance: Instance
    limit: int
    on_kill: Callable[[int], None]


class MemoryWatch:
    """Kills containers that exceed their memory limit."""

    def __init__(self, *, namespaces: bool) -> None:
        """Create a watch.

        Args:
            namespaces: Containers have PID namespaces, which identify their processes.
        """
        self._namespaces = namespaces
        self._watched: dict[Path, _Watched] = {}
        self._wake = asyncio.Event()

    def watch(self, instance: Instance, limit: int, on_kill: Callable[[int], None]) -> None:
        """Watch an instance until `forget`; `on_kill` is called with its memory use in bytes."""
        self._watched[instance.directory] = _Watched(instance, limit, on_kill)
        self._wake.set()

    def forget(self, instance: Instance) -> None:
        """Stop watching an instance."""
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
            # Shared pages were counted once per process; the exact sum is more expensive.
            used = sum(_proportional(member) for member in members)
            if used > watched.limit:
                self.forget(watched.instance)
                watched.instance.record_out_of_memory()
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
