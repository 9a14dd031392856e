"""The load: ChainerJobs of four pods, created by a user and followed until they run."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from benchmarks.real_cluster.bare import BareClient, dump
from traincrew.operator.kinds import CHAINER_JOBS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

NAMESPACE = "default"
WORKERS = 3
PODS = WORKERS + 1
PATH = CHAINER_JOBS.path(NAMESPACE)
CONCURRENCY = 16
"""Requests the user has in flight."""


def name(number: int) -> str:
    """Of equal length, so that a replay sends as many bytes as the recording."""
    return f"bench-{number:05d}"


def manifest(number: int) -> dict[str, Any]:
    """A ChainerMN job as in examples/chainer: a master and three workers."""
    image = "traincrew/chainermn:0.1.0"
    command = ["mpiexec", "-n", str(PODS), "-N", "1", "python3", "/examples/train_digits.py"]
    wait = ["sh", "-c", "trap exit TERM; while true; do sleep 3600 & wait; done"]
    return {
        "apiVersion": CHAINER_JOBS.api_version,
        "kind": CHAINER_JOBS.kind,
        "metadata": {"name": name(number), "namespace": NAMESPACE},
        "spec": {
            "backend": "mpi",
            "master": {
                "backoffLimit": 0,
                "template": {
                    "spec": {
                        "containers": [{"name": "chainer", "image": image, "command": command}]
                    }
                },
            },
            "workerSets": {
                "ws0": {
                    "replicas": WORKERS,
                    "template": {
                        "spec": {
                            "containers": [{"name": "chainer", "image": image, "command": wait}]
                        }
                    },
                }
            },
        },
    }


class _Status(Struct):
    phase: str = ""


class _Metadata(Struct):
    name: str = ""


class _Job(Struct):
    metadata: _Metadata = field(default_factory=_Metadata)
    status: _Status = field(default_factory=_Status)


class _Event(Struct):
    object: _Job


class Phases:
    """When each job was first seen in each phase, on the monotonic clock.

    Args:
        client: Of a user.
        count: Jobs that are expected.
    """

    def __init__(self, client: BareClient, count: int) -> None:
        self._client = client
        self._count = count
        self.seen: dict[str, dict[str, float]] = {}
        self.listening = asyncio.Event()
        """Set once no change can be missed any more."""
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        """Watch until cancelled."""
        decode = msgspec.json.Decoder(_Event).decode
        async for line in self._client.watch(PATH, listening=self.listening):
            job = decode(line).object
            times = self.seen.setdefault(job.status.phase, {})
            times.setdefault(job.metadata.name, time.monotonic())
            self._changed.set()

    async def all_in(self, phase: str, seconds: float) -> float:
        """Wait until every job has been in a phase; returns when the last one came.

        Raises:
            SystemExit: Not all of them came within this many seconds.
        """
        deadline = time.monotonic() + seconds
        while len(self.seen.get(phase, ())) < self._count:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), deadline - time.monotonic())
            except TimeoutError:
                counts = {phase or "none": len(jobs) for phase, jobs in self.seen.items()}
                raise SystemExit(
                    f"not all jobs {phase} after {seconds:.0f} s; jobs seen by phase: {counts}"
                ) from None
        return max(self.seen[phase].values())


async def create(
    client: BareClient, count: int, created: Callable[[int, bytes], Awaitable[None]] | None = None
) -> None:
    """Create all jobs, in order, a bounded number of requests at a time.

    Args:
        client: Of a user.
        count: How many.
        created: Told of each, with the server's answer.
    """
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            answer = await client.send("POST", PATH, dump(manifest(number)))
            if created is not None:
                await created(number, answer)

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(work())


async def uids(client: BareClient) -> dict[str, str]:
    """The UID of every job, by name."""
    found = json.loads(await client.send("GET", PATH))["items"]
    return {job["metadata"]["name"]: job["metadata"]["uid"] for job in found}
