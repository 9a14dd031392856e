"""The operator dies at every write it makes, and another one takes over.

Whatever the moment, and whether or not the write had reached the API: the job ends in the same
state as without the crash, nothing is made twice, nothing is counted twice or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import pytest
import yaml

from harness import OPERATOR_AGENT, PODS, Cluster
from plan.elastic_world import elastic
from plan.world import distributed
from traincrew.engine.errors import NotFoundError
from traincrew.engine.resources import (
    CONFIG_MAPS,
    JOBS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
)
from traincrew.local.apiserver.faults import Fault
from traincrew.operator import reconciler
from traincrew.plan import elasticjob

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from traincrew.engine.resources import Resource

Moment = Literal["before", "after"]
Document = dict[str, Any]


# -- the lives of jobs ------------------------------------------------------------------------


class Life:
    """What happens to a job of one kind, from its creation to its end.

    Attributes:
        manifest: The job; storing its computed defaults is one of the writes.
        label: Of its children; the value is its name.
        children: Resources it is made of.
        writes: The fewest and the most writes the operator needs for it.
        step: Every which of them a process is killed at; pauses take their time there.
    """

    manifest: Document
    label: str
    children: tuple[Resource, ...]
    writes: tuple[int, int]
    step: int = 3

    @property
    def name(self) -> str:
        """The job's."""
        name: str = self.manifest["metadata"]["name"]
        return name

    async def live(self, cluster: Cluster) -> None:
        """Everything that happens."""
        raise NotImplementedError

    async def end(self, cluster: Cluster) -> None:
        """From creation to success, with nothing in between."""
        raise NotImplementedError


class ChainerLife(Life):
    """Lose a worker, restart the master's container, scale up and down, finish."""

    manifest = distributed()
    del manifest["spec"]["backend"], manifest["spec"]["master"]["mpiConfig"]
    label = "chainerjob.kubeflow.org/name"
    children = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, CONFIG_MAPS, STATEFUL_SETS, JOBS)
    # How many writes there are depends on what comes together in one status write; this covers
    # the longest life seen, and numbers beyond the end of a life repeat it without a crash.
    writes = (14, 26)

    async def live(self, cluster: Cluster) -> None:
        name = self.name
        await cluster.run_workers(2)
        master = await cluster.run_master()
        await cluster.until_phase(name, "Running", workersReady="2/2")

        lost, _ = await cluster.pods("workerset")
        await cluster.client.delete(PODS, lost["metadata"]["name"], "default", grace_period=0)
        await _replaced(cluster, lost)
        await cluster.until_phase(name, "Running", restarts="1")

        await cluster.run_pod(master, restarts=1)
        await cluster.until_phase(name, "Running", restarts="2")

        await cluster.edit(name, {"workerSets": {"ws0": {"replicas": 3}}})
        await cluster.run_workers(3)
        await cluster.until_phase(name, "Running", workersReady="3/3")
        await cluster.edit(name, {"workerSets": {"ws0": {"replicas": 1}}})
        await cluster.until_phase(name, "Running", workersReady="1/1")

        await cluster.end_pod(master, 0)
        await cluster.until_phase(name, "Succeeded", workersReady="0/0")

    async def end(self, cluster: Cluster) -> None:
        await cluster.run_workers(2)
        await cluster.end_pod(await cluster.run_master(), 0)


class ElasticLife(Life):
    """Lose a worker, kill one, suspend, scale out and in, finish."""

    manifest = elastic(2, minReplicas=None, cleanPodPolicy="All")
    label = "job-name"
    children = (SERVICES,)
    writes = (20, 44)
    step = 9

    async def live(self, cluster: Cluster) -> None:
        name = self.name
        await cluster.run_members(name, 2)
        await cluster.until_phase(name, "Running", workersReady="2/2")
        lost, killed = await cluster.members(name)
        await cluster.client.delete(PODS, lost["metadata"]["name"], "default", grace_period=0)
        await _replaced(cluster, lost)
        await cluster.until_phase(name, "Running", restarts="1")

        await cluster.end_pod(killed, 137)
        await _replaced(cluster, killed)
        await cluster.until_phase(name, "Running", restarts="2", failures="1")

        await cluster.edit(name, {"suspend": True})
        await cluster.until_members(name, 0)
        await cluster.until_phase(name, "Suspended", reason="ElasticJobSuspended")
        await cluster.edit(
            name,
            {"suspend": False, "minReplicas": 1, "replicaSpecs": {"Worker": {"replicas": 3}}},
        )
        await cluster.run_members(name, 3)
        await cluster.until_phase(name, "Running", workersReady="3/3")
        await cluster.edit(name, {"replicaSpecs": {"Worker": {"replicas": 1}}})
        (last,) = await cluster.until_members(name, 1)
        await cluster.until_phase(name, "Running", workersReady="1/1")
        await self.until_services(cluster, 1)

        await cluster.end_pod(last, 0)
        await cluster.until_phase(name, "Succeeded")
        await cluster.until_members(name, 0)
        await self.until_services(cluster, 0)
        await cluster.until_phase(name, "Succeeded", workersReady="0/1")

    async def until_services(self, cluster: Cluster, count: int) -> None:
        async def check() -> bool:
            mine = [item for item in await cluster.all(SERVICES) if is_of(self, item)]
            return len(mine) == count

        await cluster.until(check)

    async def end(self, cluster: Cluster) -> None:
        for pod in await cluster.run_members(self.name, 2):
            await cluster.end_pod(pod, 0)


LIVES = [ChainerLife(), ElasticLife()]


def is_of(life: Life, child: Document) -> bool:
    """Whether an object belongs to the job, by its label."""
    return bool(child["metadata"].get("labels", {}).get(life.label) == life.name)


async def live(cluster: Cluster, life: Life) -> None:
    """Create the job, and all the rest."""
    await cluster.create(life.manifest)
    await life.live(cluster)


async def _replaced(cluster: Cluster, lost: dict[str, Any]) -> None:
    async def check() -> Any:
        found = await cluster.find(PODS, lost["metadata"]["name"])
        return found if found and found["metadata"]["uid"] != lost["metadata"]["uid"] else None

    await cluster.run_pod(await cluster.until(check))


async def result(cluster: Cluster, life: Life) -> dict[str, Any]:
    """What is left, without what differs between any two runs."""
    job = await cluster.job(life.name)
    status = copy.deepcopy(job["status"])
    for name in ("startTime", "completionTime"):
        assert status.pop(name)
    status["podRecords"] = {
        place: text.split(" ")[2:] for place, text in status.get("podRecords", {}).items()
    }
    # A restart that came and went while no operator was there is counted, but was never a state.
    status["conditions"] = [
        condition for condition in status["conditions"] if condition["type"] != "Restarting"
    ]
    for condition in status["conditions"]:
        for name in ("lastTransitionTime", "lastProbeTime", "lastUpdateTime"):
            condition.pop(name, None)
    children = {}
    for resource in life.children:
        for child in await cluster.all(resource):
            if not is_of(life, child):
                continue
            key = f"{resource.kind} {child['metadata']['name']}"
            assert key not in children
            kept = {name: child.get(name) for name in ("rules", "data", "subjects", "roleRef")}
            if resource is STATEFUL_SETS:
                kept["spec"] = child["spec"]
            children[key] = kept
    pods = {pod["metadata"]["name"].rpartition("-")[0] for pod in await cluster.all(PODS)}
    return {"spec": job["spec"], "status": status, "children": children, "pods": pods}


def is_write(method: str, path: str, agent: str) -> bool:
    """Whether a request is one of the operator's writes; events are told apart, nobody waits."""
    return (
        method != "GET"
        and agent.startswith(OPERATOR_AGENT)
        and "/events" not in path
        and "/leases" not in path
    )


async def count_writes(life: Life) -> tuple[int, dict[str, Any]]:
    """A life without crashes: how many writes it takes, and how it ends."""
    writes = 0
    async with Cluster() as cluster:

        def count(method: str, path: str, agent: str) -> Fault | None:
            nonlocal writes
            writes += is_write(method, path, agent)
            return None

        cluster.server.faults = count
        await cluster.start_operator()
        await live(cluster, life)
        return writes, await result(cluster, life)


class Crash:
    """Ends the operator at one of its writes."""

    def __init__(self, number: int, moment: Moment, kill: Callable[[], None]) -> None:
        self.left = number
        self.moment = moment
        self.kill = kill
        self.happened = asyncio.Event()

    def __call__(self, method: str, path: str, agent: str) -> Fault | None:
        """The hook of the API server."""
        if self.happened.is_set():
            # The dead send nothing more: what was still on its way is lost with the connection.
            return None
        if not is_write(method, path, agent):
            return None
        self.left -= 1
        if self.left > 0:
            return None
        self.happened.set()
        self.kill()
        return Fault(cut=self.moment)


# -- inside this process ----------------------------------------------------------------------


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are stored soon, so that a life does not take seconds."""
    monkeypatch.setattr(reconciler, "STATUS_INTERVAL", 0.1)
    monkeypatch.setattr(elasticjob, "AT_LEAST", timedelta(0))


@pytest.fixture(scope="module")
def undisturbed() -> Callable[[Life], dict[str, Any]]:
    """How a job ends when nothing goes wrong."""

    @cache
    def find(life: Life) -> dict[str, Any]:
        # In a thread: an event loop may be running in this one.
        with ThreadPoolExecutor(1) as thread:
            writes, expected = thread.submit(asyncio.run, count_writes(life)).result()
        fewest, most = life.writes
        assert fewest <= writes <= most, writes
        return expected

    return find


def moments(*, every: bool = True) -> list[Any]:
    """Every write of every life, before and after it has reached the API."""
    return [
        pytest.param(life, number, moment, id=f"{type(life).__name__}-{number}-{moment}")
        for life in LIVES
        for number in range(1, life.writes[1] + 1, 1 if every else life.step)
        for moment in ("before", "after")
    ]


@pytest.mark.parametrize(("life", "number", "moment"), moments())
async def test_a_crash_changes_nothing(
    undisturbed: Callable[[Life], dict[str, Any]], life: Life, number: int, moment: Moment
) -> None:
    expected = undisturbed(life)
    async with Cluster() as cluster:
        await cluster.start_operator()
        running = cluster._operator
        assert running is not None
        crash = Crash(number, moment, running.cancel)
        cluster.server.faults = crash
        living = asyncio.create_task(live(cluster, life))
        died = asyncio.create_task(crash.happened.wait())
        await asyncio.wait({living, died}, return_when=asyncio.FIRST_COMPLETED)
        if crash.happened.is_set():
            await cluster.kill_operator()
            await cluster.start_operator()
        await living
        died.cancel()

        assert await result(cluster, life) == expected


# -- a process of its own, killed for real ----------------------------------------------------


class Process:
    """`traincrew operator` as a process."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "traincrew.cli",
            "operator",
            f"--kubeconfig={self._kubeconfig}",
            "--no-leader-elect",
            "--helper-image=traincrew/helper:test",
            stderr=asyncio.subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Make sure that it is gone."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


@pytest.mark.parametrize(("life", "number", "moment"), moments(every=False))
async def test_sigkill_changes_nothing(
    undisturbed: Callable[[Life], dict[str, Any]],
    life: Life,
    number: int,
    moment: Moment,
    tmp_path: Path,
) -> None:
    expected = undisturbed(life)
    async with Cluster() as cluster:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(cluster.server.kubeconfig()))
        first, second = Process(kubeconfig), Process(kubeconfig)
        crash = Crash(number, moment, first.kill)
        cluster.server.faults = crash
        try:
            await first.start()
            living = asyncio.create_task(live(cluster, life))
            died = asyncio.create_task(crash.happened.wait())
            await asyncio.wait({living, died}, return_when=asyncio.FIRST_COMPLETED)
            if crash.happened.is_set():
                await first.end()
                await second.start()
            await living
            died.cancel()

            assert await result(cluster, life) == expected
        finally:
            await first.end()
            await second.end()


# -- the end of a job -------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 13))
@pytest.mark.parametrize("life", LIVES, ids=lambda life: type(life).__name__)
async def test_a_job_with_a_time_to_live_leaves_nothing(
    life: Life, number: int, moment: Moment
) -> None:
    async with Cluster() as cluster:
        await cluster.start_operator()
        running = cluster._operator
        assert running is not None
        crash = Crash(number, moment, running.cancel)
        cluster.server.faults = crash

        async def until_gone() -> None:
            manifest = copy.deepcopy(life.manifest)
            chainer = isinstance(life, ChainerLife)
            policy = manifest["spec"].setdefault("runPolicy", {}) if chainer else manifest["spec"]
            policy["ttlSecondsAfterFinished"] = 0
            await cluster.create(manifest)
            await life.end(cluster)

            async def gone() -> bool:
                with contextlib.suppress(NotFoundError):
                    await cluster.job(life.name)
                    return False
                left = [
                    child
                    for resource in (*life.children, PODS)
                    for child in await cluster.all(resource)
                    if is_of(life, child)
                ]
                return not left

            await cluster.until(gone)

        living = asyncio.create_task(until_gone())
        died = asyncio.create_task(crash.happened.wait())
        await asyncio.wait({living, died}, return_when=asyncio.FIRST_COMPLETED)
        if crash.happened.is_set():
            await cluster.kill_operator()
            await cluster.start_operator()
        await living
        died.cancel()
