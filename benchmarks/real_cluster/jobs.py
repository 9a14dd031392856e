"""The load: jobs of one kind, created by a user and followed until they run."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from msgspec import field

from benchmarks._kinds import CHAINER_JOBS, ELASTIC_JOBS, MPI_CLUSTERS, MX_JOBS
from benchmarks.real_cluster import projects
from benchmarks.real_cluster.bare import BareClient, Watched, dump
from benchmarks.real_cluster.status import Status
from traincrew.engine.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from traincrew.engine.resources import Resource

NAMESPACE = "default"
CONCURRENCY = 16
"""Requests that the user has in flight."""

_COMMAND = ["python3", "/examples/train_digits.py"]
_WAIT = ["sh", "-c", "trap exit TERM; while true; do sleep 3600 & wait; done"]


def name(number: int) -> str:
    """Return a name; all are of equal length, so that a replay sends the same number of bytes."""
    return f"bench-{number:05d}"


def _is_running(status: Status) -> bool:
    return status.phase == "Running"


@dataclass(frozen=True)
class Load:
    """Jobs of one kind.

    Attributes:
        resource: The kind.
        pods: Number of pods of each job.
        children: Number of objects that the operator itself creates for each job.
        more_writes: Limit of other writes for each job until it runs.
        spec: Spec of each job.
        runs: Whether a status says that a job runs.
        of_others: Whether the operator serves the kind only if it is asked to.
    """

    resource: Resource
    pods: int
    children: int
    more_writes: int
    spec: dict[str, Any]
    runs: Callable[[Status], bool] = _is_running
    of_others: bool = False

    @property
    def path(self) -> str:
        """The path of the jobs' collection."""
        return self.resource.path(NAMESPACE)

    def manifest(self, number: int) -> dict[str, Any]:
        """Return one of the jobs."""
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {"name": name(number), "namespace": NAMESPACE},
            "spec": self.spec,
        }


def chainer(workers: int) -> Load:
    """Return a load of ChainerMN as in examples/chainer: a master and this many workers."""
    image = "traincrew/chainermn:0.1.0"

    def template(command: list[str]) -> dict[str, Any]:
        container = {"name": "chainer", "image": image, "command": command}
        return {"spec": {"containers": [container]}}

    launch = ["mpiexec", "-n", str(workers + 1), "-N", "1", *_COMMAND]
    spec = {
        "backend": "mpi",
        "master": {"backoffLimit": 0, "template": template(launch)},
        "workerSets": {"ws0": {"replicas": workers, "template": template(_WAIT)}},
    }
    # ServiceAccount, Role, RoleBinding, ConfigMap, StatefulSet, Job
    return Load(CHAINER_JOBS, workers + 1, 6, 6, spec)


def elastic(workers: int) -> Load:
    """Return a load of torchrun as in examples/elastic, on this many workers."""
    container = {
        "name": "elasticjob-worker",
        "image": "traincrew/torch:0.1.0",
        "args": ["--nproc_per_node=1", *_COMMAND[1:]],
    }
    worker = {
        "replicas": workers,
        "restartPolicy": "ExitCode",
        "template": {"spec": {"containers": [container]}},
    }
    spec = {
        "minReplicas": 1,
        "maxReplicas": workers,
        "replicaSpecs": {"Worker": worker},
    }
    return Load(ELASTIC_JOBS, workers, 2 * workers, 12, spec)


def mxnet(workers: int) -> Load:
    """Return a load of MXNet as in examples/mxnet: a scheduler, a server and this many workers."""
    container = {"name": "mxnet", "image": "traincrew/mxnet:0.1.0", "command": _COMMAND}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    counts = {"SCHEDULER": 1, "SERVER": 1, "WORKER": workers}
    spec = {
        "jobMode": "dist",
        "replicaSpecs": [
            {"mxReplicaType": kind, "replicas": replicas, "template": template}
            for kind, replicas in counts.items()
        ],
    }
    # The scheduler's Service, and a Job for each replica.
    return Load(MX_JOBS, workers + 2, workers + 3, 8, spec)


def openmpi(workers: int) -> Load:
    """Return a load of interactive clusters as in examples/openmpi: a master and workers."""

    def template(role: str) -> dict[str, Any]:
        container = {"name": f"mpi-{role}", "image": "traincrew/openmpi:0.1.0"}
        return {"spec": {"containers": [container]}}

    spec = {
        "master": {"template": template("master")},
        "workers": {"replicas": workers, "template": template("worker")},
    }
    # Service, Secret, ConfigMap, StatefulSet, master. More: status; the hostfile when pods are
    # ready, and the annotation by which the master's kubelet reads it.
    return Load(MPI_CLUSTERS, workers + 1, 5, 10, spec)


def mpi_job(workers: int) -> Load:
    """Return a load of MPIJobs, as mpi-operator is given in `peers`."""
    # Service, Secret, ConfigMap, the workers' pods, the launcher's Job.
    return _of_others(projects.MPI_JOBS, workers, 4 + workers, projects.says_running)


def pytorch_job(workers: int) -> Load:
    """Return a load of PyTorchJobs, as training-operator is given in `peers`."""
    # A pod and a Service for each.
    pods = workers + 1
    return _of_others(projects.PYTORCH_JOBS, workers, 2 * pods, projects.says_running)


def job_set(workers: int) -> Load:
    """Return a load of JobSets, as JobSet's controller is given in `peers`."""
    return _of_others(projects.JOB_SETS, workers, 2, projects.counts_all_ready)


def _of_others(
    resource: Resource, workers: int, children: int, runs: Callable[[Status], bool]
) -> Load:
    if workers != projects.WORKERS:
        raise SystemExit(f"{resource.kind}s have {projects.WORKERS} workers here")
    spec = projects.SPECS[resource]
    return Load(resource, projects.PODS, children, 8, spec, runs, of_others=True)


class _Followed(Watched):  # a job or a pod
    status: Status = field(default_factory=Status)


class _Running:
    """Records when each of several objects was first observed running, on the monotonic clock.

    Args:
        client: Client of a user.
        path: Their collection.
        runs: Whether a status says that one runs.
        count: Number of expected objects.
    """

    def __init__(
        self, client: BareClient, path: str, runs: Callable[[Status], bool], count: int
    ) -> None:
        self._client = client
        self._path = path
        self._runs = runs
        self._count = count
        self.seen: dict[str, float] = {}
        self.listening = asyncio.Event()
        """Set once no change can be missed any more."""
        self._all = asyncio.Event()

    async def follow(self) -> None:
        """Watch until cancelled."""
        async for found in self._client.watch(self._path, _Followed, listening=self.listening):
            if self._runs(found.status):
                self.seen.setdefault(found.metadata.name, time.monotonic())
                if len(self.seen) >= self._count:
                    self._all.set()

    async def all(self, seconds: float) -> float:
        """Wait until every one runs; return when the last one was observed to.

        Raises:
            SystemExit: Not all of them ran within this many seconds.
        """
        try:
            await asyncio.wait_for(self._all.wait(), seconds)
        except TimeoutError:
            raise SystemExit(
                f"{len(self.seen)} of {self._count} {self._path.rpartition('/')[2]} run after"
                f" {seconds:.0f} s"
            ) from None
        return max(self.seen.values())


class RunningPods(_Running):
    """Records when each pod of the namespace was first observed running.

    Args:
        client: Client of a user.
        count: Number of expected pods.
    """

    def __init__(self, client: BareClient, count: int) -> None:
        super().__init__(client, PODS.path(NAMESPACE), _is_running, count)

    def half(self) -> float:
        """Return when half of the pods that run by now did."""
        return median(self.seen.values())

    def last_of_each(self) -> dict[str, float]:
        """Return when the last pod of each job, by its name, was observed running."""
        last: dict[str, float] = {}
        for pod, seconds in self.seen.items():
            job = pod[: len(name(0))]
            last[job] = max(seconds, last.get(job, seconds))
        return last


class RunningJobs(_Running):
    """Records when the status of each job first said that it runs.

    Args:
        client: Client of a user.
        load: The jobs.
        count: Number of expected jobs.
    """

    def __init__(self, client: BareClient, load: Load, count: int) -> None:
        super().__init__(client, load.path, load.runs, count)


async def create(
    client: BareClient,
    load: Load,
    count: int,
    created: Callable[[int, bytes], Awaitable[None]] | None = None,
) -> None:
    """Create all jobs, in order, with a bounded number of requests in flight.

    Args:
        client: Client of a user.
        load: The jobs.
        count: Number of jobs.
        created: Called for each, with the server's response.
    """
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            answer = await client.send("POST", load.path, dump(load.manifest(number)))
            if created is not None:
                await created(number, answer)

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(work())


async def uids(client: BareClient, load: Load) -> dict[str, str]:
    """Return the UID of every job, by name."""
    found = json.loads(await client.send("GET", load.path))["items"]
    return {job["metadata"]["name"]: job["metadata"]["uid"] for job in found}
