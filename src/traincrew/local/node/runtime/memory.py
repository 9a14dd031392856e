"""The memory of containers, and the size of volumes, limited by measuring them.

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
from typing import TYPE_CHECKING, NamedTuple

from traincrew.engine.observability import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traincrew.local.node.runtime.instances import Instance
    from traincrew.local.node.runtime.processes import Process

__all__ = [
    "Members",
    "MemoryFiles",
    "MemoryUse",
    "MemoryWatch",
    "all_processes",
    "members_of",
    "memory_use",
    "size_of",
]

_PERIOD_SECONDS = 1.0
_DISK_PERIODS = 10
"""Volumes on disk may have many files: they are measured each tenth time, as by the kubelet."""
_MAX_ENTRIES = 200_000
"""Files of one volume that are counted."""
_BLOCK = 512
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


class _Volume(NamedTuple):
    directory: Path
    limit: int
    on_disk: bool
    on_exceeded: Callable[[], None]


class MemoryWatch:
    """Kills containers that exceed their memory limit, and reports volumes that exceed their size.

    Args:
        namespaces: Containers have PID namespaces, which identify their processes, and a root file
            system in memory.
    """

    def __init__(self, *, namespaces: bool) -> None:
        self._namespaces = namespaces
        self._watched: dict[Path, _Watched] = {}
        self._volumes: dict[Path, _Volume] = {}
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

    def watch_volume(
        self, directory: Path, limit: int, on_exceeded: Callable[[], None], *, on_disk: bool
    ) -> None:
        """Watch a volume until `forget_volume`; `on_exceeded` is called once."""
        self._volumes[directory] = _Volume(directory, limit, on_disk, on_exceeded)
        self._wake.set()

    def forget(self, instance: Instance) -> None:
        """Stop watching an instance."""
        self._watched.pop(instance.directory, None)

    def forget_volume(self, directory: Path) -> None:
        """Stop watching a volume."""
        self._volumes.pop(directory, None)

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
            if not self._watched and not self._volumes:
                self._wake.clear()
                await self._wake.wait()
            await asyncio.sleep(_PERIOD_SECONDS)
            rounds += 1
            if sys.platform == "linux":
                await self._check_containers()
            await self._check_volumes(disk=rounds % _DISK_PERIODS == 0)

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

    async def _check_volumes(self, *, disk: bool) -> None:
        volumes = [each for each in self._volumes.values() if disk or not each.on_disk]
        if not volumes:
            return
        for volume in await asyncio.to_thread(_too_large, volumes):
            if self._volumes.pop(volume.directory, None) is not None:
                volume.on_exceeded()

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
    own = _root_files(instance, members.program.pid) if namespaces else 0
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


def _root_files(instance: Instance, program: int) -> int:
    """Return the bytes that a container wrote into its root file system."""
    root = instance.root_files()
    if root is None:
        return 0
    path = f"/proc/{program}/root/"
    try:
        if os.stat(path).st_dev != root.device:  # noqa: PTH116  # hot
            return 0  # it has changed its root directory; its end is checked by the shim
        found = os.statvfs(path)
    except OSError:
        return 0
    return (found.f_blocks - found.f_bfree) * found.f_frsize - root.used


def _shared(directories: Iterable[Path], limit: int) -> int:
    return sum(size_of(each, limit) for each in directories)


def _too_large(volumes: list[_Volume]) -> list[_Volume]:
    return [each for each in volumes if size_of(each.directory, each.limit) > each.limit]


def size_of(directory: Path, limit: int) -> int:
    """Return the bytes that the files in a directory occupy; somewhat more than `limit` suffices.

    What cannot be read does not count. Links are not followed, and hard links count once.
    """
    total, entries = 0, 0
    linked: set[int] = set()
    waiting = [os.fspath(directory)]
    while waiting and total <= limit:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    entries += 1
                    if entries > _MAX_ENTRIES:
                        return total
                    status = entry.stat(follow_symlinks=False)
                    if status.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):
                        if status.st_ino in linked:
                            continue
                        linked.add(status.st_ino)
                    total += status.st_blocks * _BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return total


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
