"""The memory of containers, and what pods store, limited by measuring them.

There are no cgroups here (unprivileged users cannot create them), so a limit is enforced with a
delay of a second: a container above it is killed and reported as `OOMKilled`. As in a cgroup,
files that a container writes into memory count: those of its root file system, of `/dev/shm`, and
of `emptyDir` volumes with `medium: Memory`. What it wrote before it ended counts as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from traincrew.engine.observability import get_logger
from traincrew.local.node.runtime.sizes import root_files, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traincrew.local.node.runtime.instances import Instance
    from traincrew.local.node.runtime.processes import Process

__all__ = [
    "Members",
    "MemoryFiles",
    "MemoryUse",
    "MemoryWatch",
    "StorageCheck",
    "all_processes",
    "members_of",
    "memory_use",
]

_PERIOD_SECONDS = 1.0
_DISK_PERIODS = 10
"""Volumes on disk may have many files: they are measured each tenth time, as by the kubelet."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


class MemoryFiles(NamedTuple):
    """The directories in memory that a container shares with its pod.

    Attributes:
        pod: UID of the pod.
        directories: which the container can write.
        alone: no other container runs in the pod, so all files there are its own.
        pod_limit: bytes that the pod's containers may use together; 0 without a limit.
    """

    pod: str = ""
    directories: tuple[Path, ...] = ()
    alone: bool = True
    pod_limit: int = 0


class MemoryUse(NamedTuple):
    """The measured memory of a container.

    Attributes:
        used: bytes; 0 if only that it was too much is known.
        files: how many of them are files.
    """

    used: int
    files: int


class _Watched(NamedTuple):
    instance: Instance
    limit: int
    on_kill: Callable[[MemoryUse], None]
    files: MemoryFiles


class StorageCheck(Protocol):
    """Measures what a pod stores; called in a thread."""

    def __call__(self, *, disk: bool) -> str:
        """Return what is too much, for users; empty if nothing is.

        Args:
            disk: Whether to measure volumes on disk, which takes longer.
        """
        ...


class _Storage(NamedTuple):
    check: StorageCheck
    on_exceeded: Callable[[str], None]


class MemoryWatch:
    """Kills containers that exceed their memory limit, and reports pods that store too much.

    Args:
        namespaces: Containers have PID namespaces, which identify their processes, and a root file
            system in memory.
    """

    def __init__(self, *, namespaces: bool) -> None:
        self._namespaces = namespaces
        self._watched: dict[Path, _Watched] = {}
        self._storage: dict[str, _Storage] = {}
        self._wake = asyncio.Event()
        self._log = get_logger(component="memory")

    def watch(
        self,
        instance: Instance,
        limit: int,
        on_kill: Callable[[MemoryUse], None],
        files: MemoryFiles | None = None,
    ) -> None:
        """Watch an instance until `forget`; `on_kill` is called with its memory use."""
        found = files or MemoryFiles()
        self._watched[instance.directory] = _Watched(instance, limit, on_kill, found)
        self._wake.set()

    def watch_storage(
        self, pod: str, check: StorageCheck, on_exceeded: Callable[[str], None]
    ) -> None:
        """Watch a pod, by its UID, until `forget_storage`; `on_exceeded` is called once."""
        self._storage[pod] = _Storage(check, on_exceeded)
        self._wake.set()

    def forget(self, instance: Instance) -> None:
        """Stop watching an instance."""
        self._watched.pop(instance.directory, None)

    def forget_storage(self, pod: str) -> None:
        """Stop watching what a pod stores."""
        self._storage.pop(pod, None)

    async def check_end(self, instance: Instance) -> None:
        """Record an instance that has ended as killed if it left too many files in memory.

        On a cluster it would have been killed while it wrote them.
        """
        watched = self._watched.get(instance.directory)
        if watched is None:
            return
        files, written = watched.files, 0
        if files.alone:
            written = await asyncio.to_thread(_shared, files.directories, watched.limit)
        written = written if written > watched.limit else 0
        if written or instance.is_out_of_memory():
            self._record(watched, MemoryUse(written, written or 1))

    async def run(self) -> None:
        """Watch until cancelled."""
        rounds = 0
        while True:
            if not self._watched and not self._storage:
                self._wake.clear()
                await self._wake.wait()
            await asyncio.sleep(_PERIOD_SECONDS)
            rounds += 1
            if sys.platform == "linux":
                await self._check_containers()
            await self._check_storage(disk=rounds % _DISK_PERIODS == 0)

    async def _check_containers(self) -> None:
        watched = list(self._watched.values())
        if not watched:
            return
        for one, use in await asyncio.to_thread(self._exceeding, watched):
            if one.instance.directory in self._watched:
                self._record(one, use)
                one.instance.kill()

    def _record(self, watched: _Watched, use: MemoryUse) -> None:
        self.forget(watched.instance)
        try:
            watched.instance.record_out_of_memory()
        except OSError as error:  # a full disk: it is killed nevertheless
            self._log.warning("the reason of a kill cannot be recorded", error=str(error))
        watched.on_kill(use)

    async def _check_storage(self, *, disk: bool) -> None:
        storage = dict(self._storage)
        if not storage:
            return
        for pod, message in (await asyncio.to_thread(_exceeded, storage, disk=disk)).items():
            if self._storage.get(pod) is storage[pod]:
                self.forget_storage(pod)
                storage[pod].on_exceeded(message)

    def _exceeding(self, watched: list[_Watched]) -> list[tuple[_Watched, MemoryUse]]:
        """Return the containers to kill, with their memory use."""
        groups = all_processes(namespaces=self._namespaces)
        found, pods = [], dict[str, list[tuple[_Watched, MemoryUse]]]()
        for each in watched:
            files = each.files
            members = members_of(each.instance, groups, namespaces=self._namespaces)
            if members is None:
                continue
            use = memory_use(
                each.instance, files, members, namespaces=self._namespaces, limit=each.limit
            )
            if use.used > each.limit:
                found.append((each, use))
            elif not files.alone and files.pod_limit:
                pods.setdefault(files.pod, []).append((each, use))
        for group in pods.values():
            found += _of_pod(group)
        return found


class Members(NamedTuple):
    """The processes of a container.

    Attributes:
        program: its first one.
        pids: all of them that are running, the first one included.
    """

    program: Process
    pids: list[int]


def members_of(
    instance: Instance, groups: dict[int, list[int]], *, namespaces: bool
) -> Members | None:
    """Return the processes of a container; None before its program has started.

    Args:
        instance: of the container.
        groups: from `all_processes`.
        namespaces: containers have PID namespaces.
    """
    processes = instance.processes()
    if processes is None or processes[1] is None:
        return None
    program = processes[1]
    key = _namespace_of(program.pid) if namespaces else program.pid
    return Members(program, groups.get(key, []) if key else [])


def memory_use(
    instance: Instance,
    files: MemoryFiles,
    members: Members,
    *,
    namespaces: bool,
    limit: int | None = None,
) -> MemoryUse:
    """Return the memory of a container.

    Args:
        instance: of the container.
        files: what it shares in memory with its pod.
        members: its processes.
        namespaces: it has a root file system in memory.
        limit: bytes up to which an upper bound is enough; None for the exact use.
    """
    own = root_files(instance, members.program.pid) if namespaces else 0
    most = sys.maxsize if limit is None else limit
    shared = _shared(files.directories, most) if files.alone else 0
    return _use(members.pids, own + shared, -1 if limit is None else limit)


def _use(members: list[int], files: int, limit: int) -> MemoryUse:
    """Return the memory of processes and files.

    Shared memory that a process has mapped is often one of the files: it counts once.
    """
    used = sum(_resident(member) for member in members)
    if used + files <= limit:
        return MemoryUse(used + files, files)
    # Shared pages were counted once per process; the exact sum is more expensive.
    exact = [_proportional(member) for member in members]
    used = sum(each[0] for each in exact)
    mapped = sum(each[1] for each in exact)
    return MemoryUse(used - mapped + max(mapped, files), files)


def _of_pod(group: list[tuple[_Watched, MemoryUse]]) -> list[tuple[_Watched, MemoryUse]]:
    """Return the container to kill of a pod that uses more than all its containers may, if so.

    The kernel kills that with the most memory.
    """
    directories = {path for each, _ in group for path in each.files.directories}
    limit = group[0][0].files.pod_limit
    shared = _shared(directories, limit)
    largest, use = max(group, key=lambda pair: pair[1].used)
    # Where processes have mapped files of these directories, they were counted with them.
    total = max(sum(each.used for _, each in group), sum(each.files for _, each in group) + shared)
    if total <= limit:
        return []
    return [(largest, MemoryUse(use.used + shared, use.files + shared))]


def _shared(directories: Iterable[Path], limit: int) -> int:
    return sum(size_of(each, limit) for each in directories)


def _exceeded(storage: dict[str, _Storage], *, disk: bool) -> dict[str, str]:
    found = {pod: each.check(disk=disk) for pod, each in storage.items()}
    return {pod: message for pod, message in found.items() if message}


def _processes() -> Iterable[int]:
    return (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())


def _namespace_of(process: int) -> int:
    try:
        return os.stat(f"/proc/{process}/ns/pid").st_ino  # noqa: PTH116  # hot
    except OSError:
        return 0


def all_processes(*, namespaces: bool) -> dict[int, list[int]]:
    """Return the PIDs of this machine's processes, by PID namespace or else by session."""
    return _by_namespace() if namespaces else _by_session()


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


def _proportional(process: int) -> tuple[int, int]:
    """Return a process's share of its memory, and how much of it is shared memory it has mapped."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return _resident(process), 0
    sizes = {line.split(":")[0]: line.split()[1] for line in lines[1:]}
    total = int(sizes.get("Pss", 0)) * 1024
    # Before Linux 5.3 it is unknown: then files are counted with the processes that map them.
    return total, int(sizes.get("Pss_Shmem", 0)) * 1024 if "Pss_Shmem" in sizes else total
