"""Send again what the operator sent, with a client that decides nothing.

The same user creates the same jobs, and every write the recording has for a job is sent with the
same verb, path and body, in the same order within the job, at most as many at a time as the
operator had in flight. Only what the API server made up is filled in anew: the job's UID, and the
resource version that a status write is bound to.

Some writes wait for the cluster, as no client can know them to be true any earlier. Of a ChainerJob
the master's Job waits until the workers are ready, and the status that says Running until the
master's pod runs; of an ElasticJob a status waits until as many workers are ready as it says.
"""

from __future__ import annotations

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from benchmarks.real_cluster import jobs
from benchmarks.real_cluster.bare import Metadata, Watched
from traincrew.engine.resources import JOBS, PODS, STATEFUL_SETS
from traincrew.plan import elasticjob_children as elastic
from traincrew.plan.chainerjob_children import LABEL_NAME, LABEL_ROLE, ROLE_MASTER

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from benchmarks.real_cluster.bare import BareClient
    from benchmarks.real_cluster.recording import Exchange
    from traincrew.engine.resources import Resource

_JOB_NAME = re.compile(rb"bench-[0-9]{5}")
_RUNNING = re.compile(rb'"type":"Running","status":"True"')
_UID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_RESOURCE_VERSION = re.compile(rb'(?<=\{"metadata":\{"resourceVersion":")[0-9]+')
_WORKERS_READY = re.compile(rb'"workersReady":"([0-9]+)/')
_CREATES_MASTER = JOBS.path(jobs.NAMESPACE)


class _Spec(Struct):
    replicas: int = 0


class _Status(Struct, rename="camel"):
    phase: str = ""
    ready_replicas: int = 0


class _Object(Watched):
    spec: _Spec = field(default_factory=_Spec)
    status: _Status = field(default_factory=_Status)


_decode_object = msgspec.json.Decoder(_Object).decode


def by_job(exchanges: Iterable[Exchange]) -> dict[str, list[Exchange]]:
    """The successful writes that were made for each job, in the order they were sent."""
    found: dict[str, list[Exchange]] = {}
    for exchange in exchanges:
        if not exchange.is_write or not 200 <= exchange.status < 300:
            continue
        named = _JOB_NAME.search(exchange.path.encode()) or _JOB_NAME.search(exchange.body)
        if named is not None:
            found.setdefault(named[0].decode(), []).append(exchange)
    for writes in found.values():
        writes.sort(key=lambda exchange: exchange.started)
    return found


def most_at_once(exchanges: Iterable[Exchange]) -> int:
    """How many writes were in flight at the busiest moment."""
    moments = []
    for exchange in exchanges:
        if exchange.is_write:
            moments += [(exchange.started, 1), (exchange.ended, -1)]
    most = count = 0
    for _, change in sorted(moments):
        count += change
        most = max(most, count)
    return most


def steps(writes: Sequence[Exchange]) -> list[list[Exchange]]:
    """Writes that overlapped in time may overlap again; the others stay in order."""
    found: list[list[Exchange]] = []
    ends = 0.0
    for write in writes:
        if not found or write.started >= ends:
            found.append([])
            ends = float("inf")
        found[-1].append(write)
        ends = min(ends, write.ended)
    return found


class Cluster(ABC):
    """What the replay may wait for.

    Args:
        client: To watch with.
    """

    def __init__(self, client: BareClient) -> None:
        self._client = client
        self._changed: defaultdict[str, asyncio.Condition] = defaultdict(asyncio.Condition)
        self._listening: list[asyncio.Event] = []

    async def wait_listening(self) -> None:
        """Wait until no change can be missed any more."""
        for event in self._listening:
            await event.wait()

    @abstractmethod
    def watches(self) -> list[Coroutine[Any, Any, None]]:
        """To be run until cancelled."""

    @abstractmethod
    def is_true(self, job: str, write: Exchange) -> bool:
        """Whether what a write is about has come to pass."""

    async def wait(self, job: str, write: Exchange) -> None:
        """Wait until a write may be sent."""
        changed = self._changed[job]
        async with changed:
            await changed.wait_for(lambda: self.is_true(job, write))

    async def _follow(
        self, resource: Resource, selector: str, label: str, note: Callable[[str, _Object], None]
    ) -> None:
        path = resource.path(jobs.NAMESPACE)
        listening = asyncio.Event()
        self._listening.append(listening)
        watched = self._client.watch(path, _Object, f"&labelSelector={selector}", listening)
        async for found in watched:
            job = found.metadata.labels[label]
            note(job, found)
            async with self._changed[job]:
                self._changed[job].notify_all()


class ChainerCluster(Cluster):
    """Workers that are ready, masters that run."""

    def __init__(self, client: BareClient) -> None:
        super().__init__(client)
        self._ready: set[str] = set()
        self._running: set[str] = set()

    def watches(self) -> list[Coroutine[Any, Any, None]]:
        """StatefulSets and masters."""
        return [
            self._follow(STATEFUL_SETS, LABEL_NAME, LABEL_NAME, self._note_workers),
            self._follow(PODS, f"{LABEL_ROLE}={ROLE_MASTER}", LABEL_NAME, self._note_master),
        ]

    def _note_workers(self, job: str, found: _Object) -> None:
        if found.status.ready_replicas == found.spec.replicas:
            self._ready.add(job)

    def _note_master(self, job: str, found: _Object) -> None:
        if found.status.phase == "Running":
            self._running.add(job)

    def is_true(self, job: str, write: Exchange) -> bool:
        """A master needs workers; a job runs when its master does."""
        if write.method == "POST" and write.path.startswith(_CREATES_MASTER):
            return job in self._ready
        return not _RUNNING.search(write.body) or job in self._running


class ElasticCluster(Cluster):
    """Workers that run."""

    def __init__(self, client: BareClient) -> None:
        super().__init__(client)
        self._running: dict[str, set[str]] = {}

    def watches(self) -> list[Coroutine[Any, Any, None]]:
        """The workers."""
        group = f"{elastic.LABEL_GROUP}={elastic.GROUP_NAME}"
        return [self._follow(PODS, group, elastic.LABEL_NAME, self._note_worker)]

    def _note_worker(self, job: str, found: _Object) -> None:
        if found.status.phase == "Running":
            self._running.setdefault(job, set()).add(found.metadata.name)

    def is_true(self, job: str, write: Exchange) -> bool:
        """As many workers run as a status says."""
        ready = _WORKERS_READY.search(write.body)
        least = max(int(ready[1]) if ready else 0, 1 if _RUNNING.search(write.body) else 0)
        return len(self._running.get(job, ())) >= least


class Replay:
    """The writes of a recording, job by job.

    Args:
        client: With the operator's identity, so that the API server's flow control sees the same.
        load: What the jobs are.
        writes: As `by_job` has found them.
        uids: Of the recorded jobs, by name.
        at_once: Requests in flight at most.
        cluster: What has to be waited for; None to wait for nothing.
    """

    def __init__(
        self,
        client: BareClient,
        load: jobs.Load,
        writes: Mapping[str, Sequence[Exchange]],
        uids: Mapping[str, str],
        *,
        at_once: int,
        cluster: Cluster | None,
    ) -> None:
        self._client = client
        self._path = load.path
        self._writes = writes
        self._uids = uids
        self._slots = asyncio.Semaphore(at_once)
        self._cluster = cluster
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: dict[str, str] = {}
        self.last_write = 0.0
        """When the answer to the latest write was there, on the monotonic clock."""
        self.sent = 0

    async def created(self, number: int, answer: bytes) -> None:
        """Begin with the job of this number, whose creation was answered so."""
        name = jobs.name(number)
        job = _decode_object(answer).metadata
        self._tasks.append(asyncio.create_task(self._replay(name, job), name=name))

    async def wait(self, seconds: float) -> None:
        """Wait until everything is written.

        Args:
            seconds: How long at most.

        Raises:
            RefusedError: A write was refused.
            SystemExit: It took longer.
        """
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*self._tasks)
        except TimeoutError:
            waiting = sorted(self._waiting.items())[:10]
            raise SystemExit(
                f"not everything is written after {seconds:.0f} s; waiting: {waiting}"
            ) from None

    async def _replay(self, name: str, job: Metadata) -> None:
        for step in steps(self._writes[name]):
            await asyncio.gather(*(self._write(name, job, write) for write in step))

    async def _write(self, name: str, job: Metadata, write: Exchange) -> None:
        if self._cluster is not None:
            self._waiting[name] = f"{write.method} {write.path}"
            await self._cluster.wait(name, write)
            self._waiting.pop(name, None)
        async with self._slots:
            body = self._fill_in(name, job, write.body)
            answer = await self._client.send(write.method, write.path, body, write.content_type)
            self.last_write = max(self.last_write, time.monotonic())
            self.sent += 1
        if write.path.startswith(self._path):
            job.resource_version = _decode_object(answer).metadata.resource_version

    def _fill_in(self, name: str, job: Metadata, body: bytes) -> bytes:
        recorded = self._uids[name].encode()
        for uid in set(_UID.findall(body)):
            if uid != recorded:
                raise SystemExit(f"the recording of {name} depends on the UID of another object")
        body = body.replace(recorded, job.uid.encode())
        return _RESOURCE_VERSION.sub(job.resource_version.encode(), body)
