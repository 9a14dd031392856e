"""What containers use of processors and memory, measured when somebody asks.

There are no cgroups here, so the counters are those of processes. They count the processes that
have ended as well, once their parents have waited for them, and orphans are waited for by the
first process of the container. Between two requests nothing is measured: the use of processors is
the difference of two samples, so a request without a recent one takes `SETTLE_SECONDS`. Each costs
one pass over `/proc`, and in the second one the exact memory of each process of a container.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.http.node_backend import (
    ContainerUsage,
    NodeUsage,
    PodUsage,
    Usage,
)
from traincrew.local.node.runtime.memory import all_processes, members_of, memory_use

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traincrew.local.node.runtime.instances import Instance
    from traincrew.local.node.runtime.memory import Members, MemoryFiles

__all__ = ["Sample", "UsageMeter", "Used", "baseline", "usage_between"]

SETTLE_SECONDS = 1.0
"""The shortest window; results that are not older are given again."""
WINDOW_SECONDS = 15.0
"""The usual window, if somebody asks often: metrics-server's."""
OLDEST_SECONDS = 60.0
"""An older sample says nothing about what is used."""


class Used(NamedTuple):
    """What one container has used.

    Attributes:
        pod: UID of its pod.
        name: of the container.
        node: the virtual node.
        started: when its program started, on the clock of the samples.
        cpu: seconds of processors since then.
        memory: bytes.
    """

    pod: str
    name: str
    node: str
    started: float
    cpu: float
    memory: int


class Sample(NamedTuple):
    """What all containers had used at one time, in seconds since the machine was started."""

    at: float
    used: dict[Path, Used]


class _Tracked(NamedTuple):
    instance: Instance
    files: MemoryFiles
    node: str


def baseline(samples: Sequence[Sample], now: float) -> Sample | None:
    """Return the sample to compare with, of samples in the order of time; None if none fits. Pure.

    It is the newest one that is `WINDOW_SECONDS` old, else the oldest one.
    """
    fitting = [each for each in samples if SETTLE_SECONDS <= now - each.at <= OLDEST_SECONDS]
    old = [each for each in fitting if now - each.at >= WINDOW_SECONDS]
    return old[-1] if old else fitting[0] if fitting else None


def usage_between(before: Sample, after: Sample, at: float) -> Usage:
    """Return what containers used between two samples. Pure.

    A container that started in between is measured from its start, as metrics-server does; a pod
    with one that has just started is left out.

    Args:
        before: the first sample.
        after: the second one.
        at: its time in seconds since the epoch.
    """
    pods: dict[str, PodUsage] = {}
    nodes: dict[str, NodeUsage] = {}
    fresh: set[str] = set()
    for path, used in after.used.items():
        known = before.used.get(path)
        since, cpu = (used.started, 0.0) if known is None else (before.at, known.cpu)
        seconds = after.at - since
        if seconds < SETTLE_SECONDS:
            fresh.add(used.pod)
            continue
        rate = max(used.cpu - cpu, 0.0) / seconds
        pod = pods.get(used.pod) or PodUsage(seconds, {})
        containers = pod.containers | {used.name: ContainerUsage(rate, used.memory)}
        pods[used.pod] = PodUsage(min(pod.window, seconds), containers)
        window = after.at - before.at
        node = nodes.get(used.node) or NodeUsage(window, 0.0, 0)
        nodes[used.node] = NodeUsage(window, node.cpu + rate, node.memory + used.memory)
    pods = {uid: pod for uid, pod in pods.items() if uid not in fresh}
    return Usage(at, after.at - before.at, pods, nodes)


class UsageMeter:
    """Measures what the running containers of this node use.

    Attributes:
        namespaces: containers have PID namespaces; known once the node has started.
    """

    def __init__(self) -> None:
        self.namespaces = False
        self._tracked: dict[Path, _Tracked] = {}
        self._samples: list[Sample] = []
        self._latest: Usage | None = None
        self._measuring = asyncio.Lock()

    @contextmanager
    def tracking(self, instance: Instance, files: MemoryFiles, node: str) -> Iterator[None]:
        """Measure a container meanwhile.

        Args:
            instance: its running instance.
            files: what it shares in memory with its pod.
            node: the virtual node of the pod.
        """
        self._tracked[instance.directory] = _Tracked(instance, files, node)
        try:
            yield
        finally:
            del self._tracked[instance.directory]

    async def measure(self) -> Usage | None:
        """Return what containers use; None where there is no `/proc`."""
        if sys.platform != "linux":
            return None
        async with self._measuring:
            now = _now()
            if (
                self._latest is not None
                and self._samples
                and now - self._samples[-1].at < SETTLE_SECONDS
            ):
                return self._latest
            before = baseline(self._samples, now)
            if before is None:
                before = await self._sample(memory=False)
                await asyncio.sleep(SETTLE_SECONDS)
            after = await self._sample(memory=True)
            recent = [each for each in self._samples if after.at - each.at <= OLDEST_SECONDS]
            self._samples = [*recent, after]
            self._latest = usage_between(before, after, time.time())
            return self._latest

    async def _sample(self, *, memory: bool) -> Sample:
        tracked = list(self._tracked.values())
        return await asyncio.to_thread(self._measured, tracked, memory=memory)

    def _measured(self, tracked: list[_Tracked], *, memory: bool) -> Sample:
        groups = all_processes(namespaces=self.namespaces)
        at = _now()
        found: dict[Path, Used] = {}
        counted: set[int] = set()
        for each in tracked:
            members = members_of(each.instance, groups, namespaces=self.namespaces)
            if members is None or not members.pids or members.pids[0] in counted:
                continue  # a container for debugging is measured with the one that it has entered
            counted.add(members.pids[0])
            size = (
                memory_use(each.instance, each.files, members, namespaces=self.namespaces).used
                if memory
                else 0
            )
            found[each.instance.directory] = Used(
                each.files.pod,
                each.instance.directory.parent.name,
                each.node,
                members.program.start / _TICKS,
                _processor_seconds(members),
                size,
            )
        return Sample(at, found)


_TICKS = os.sysconf("SC_CLK_TCK")


def _now() -> float:
    """Return the clock of `/proc/PID/stat`."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _processor_seconds(members: Members) -> float:
    """Return what processes have used, with those that they have waited for."""
    return sum(map(_ticks, members.pids)) / _TICKS


def _ticks(process: int) -> int:
    try:
        data = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return 0
    # Own and waited-for time, each in user and kernel mode; the name may contain anything.
    return sum(map(int, data.rpartition(b")")[2].split()[11:15]))
