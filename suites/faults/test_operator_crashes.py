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
from typing import TYPE_CHECKING, Any, Literal

import pytest
import yaml

from harness import OPERATOR_AGENT, PODS, Cluster
from plan.world import distributed
from traincrew.engine.errors import NotFoundError
from traincrew.engine.resources import (
    CONFIG_MAPS,
    JOBS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
)
from traincrew.local.apiserver.faults import Fault
from traincrew.operator import reconciler
from traincrew.operator.kinds import CHAINER_JOBS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME = "digits-mn"
CHILDREN = (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, CONFIG_MAPS, STATEFUL_SETS, JOBS)
Moment = Literal["before", "after"]


def manifest() -> dict[str, Any]:
    """A job whose defaults have to be computed, so that storing them is one of the writes."""
    document = distributed()
    del document["spec"]["backend"], document["spec"]["master"]["mpiConfig"]
    return document


# -- one life of a job ------------------------------------------------------------------------


async def live(cluster: Cluster) -> None:
    """Create, lose a worker, restart the master's container, scale up and down, finish."""
    await cluster.create(manifest())
    await cluster.run_workers(2)
    master = await cluster.run_master()
    await cluster.until_phase(NAME, "Running", workersReady="2/2")

    lost, _ = await cluster.pods("workerset")
    await cluster.client.delete(PODS, lost["metadata"]["name"], "default", grace_period=0)
    await _replaced(cluster, lost)
    await cluster.until_phase(NAME, "Running", restarts="1")

    await cluster.run_pod(master, restarts=1)
    await cluster.until_phase(NAME, "Running", restarts="2")

    await cluster.edit(NAME, {"workerSets": {"ws0": {"replicas": 3}}})
    await cluster.run_workers(3)
    await cluster.until_phase(NAME, "Running", workersReady="3/3")
    await cluster.edit(NAME, {"workerSets": {"ws0": {"replicas": 1}}})
    await cluster.until_phase(NAME, "Running", workersReady="1/1")

    await cluster.end_pod(master, 0)
    await cluster.until_phase(NAME, "Succeeded", workersReady="0/0")


async def _replaced(cluster: Cluster, lost: dict[str, Any]) -> None:
    async def check() -> Any:
        found = await cluster.find(PODS, lost["metadata"]["name"])
        return found if found and found["metadata"]["uid"] != lost["metadata"]["uid"] else None

    await cluster.run_pod(await cluster.until(check))


async def result(cluster: Cluster) -> dict[str, Any]:
    """What is left, without what differs between any two runs."""
    job = await cluster.job(NAME)
    status = copy.deepcopy(job["status"])
    for name in ("startTime", "completionTime"):
        assert status.pop(name)
    status["podRecords"] = {
        place: text.split(" ")[2:] for place, text in status["podRecords"].items()
    }
    # A restart that came and went while no operator was there is counted, but was never a state.
    status["conditions"] = [
        condition for condition in status["conditions"] if condition["type"] != "Restarting"
    ]
    for condition in status["conditions"]:
        condition.pop("lastTransitionTime", None)
        condition.pop("lastProbeTime", None)
    children = {}
    for resource in CHILDREN:
        for child in await cluster.all(resource):
            if child["metadata"].get("labels", {}).get("chainerjob.kubeflow.org/name") != NAME:
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


async def count_writes() -> tuple[int, dict[str, Any]]:
    """A life without crashes: how many writes it takes, and how it ends."""
    writes = 0
    async with Cluster() as cluster:

        def count(method: str, path: str, agent: str) -> Fault | None:
            nonlocal writes
            writes += is_write(method, path, agent)
            return None

        cluster.server.faults = count
        await cluster.start_operator()
        await live(cluster)
        return writes, await result(cluster)


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

# How many writes there are depends on what comes together in one status write; this covers the
# longest life seen, and numbers beyond the end of a life only repeat it without a crash.
MOST_WRITES = 26


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are stored soon, so that a life does not take seconds."""
    monkeypatch.setattr(reconciler, "STATUS_INTERVAL", 0.1)


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, Any]:
    """How the job ends when nothing goes wrong."""
    writes, expected = asyncio.run(count_writes())
    assert 14 <= writes <= MOST_WRITES, writes
    return expected


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, MOST_WRITES + 1))
async def test_a_crash_changes_nothing(
    undisturbed: dict[str, Any], number: int, moment: Moment
) -> None:
    async with Cluster() as cluster:
        await cluster.start_operator()
        running = cluster._operator
        assert running is not None
        crash = Crash(number, moment, running.cancel)
        cluster.server.faults = crash
        life = asyncio.create_task(live(cluster))
        died = asyncio.create_task(crash.happened.wait())
        await asyncio.wait({life, died}, return_when=asyncio.FIRST_COMPLETED)
        if crash.happened.is_set():
            await cluster.kill_operator()
            await cluster.start_operator()
        await life
        died.cancel()

        assert await result(cluster) == undisturbed


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


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, MOST_WRITES + 1, 3))
async def test_sigkill_changes_nothing(
    undisturbed: dict[str, Any], number: int, moment: Moment, tmp_path: Path
) -> None:
    async with Cluster() as cluster:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(cluster.server.kubeconfig()))
        first, second = Process(kubeconfig), Process(kubeconfig)
        crash = Crash(number, moment, first.kill)
        cluster.server.faults = crash
        try:
            await first.start()
            life = asyncio.create_task(live(cluster))
            died = asyncio.create_task(crash.happened.wait())
            await asyncio.wait({life, died}, return_when=asyncio.FIRST_COMPLETED)
            if crash.happened.is_set():
                await first.end()
                await second.start()
            await life
            died.cancel()

            assert await result(cluster) == undisturbed
        finally:
            await first.end()
            await second.end()


# -- the end of a job -------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 13))
async def test_a_job_with_a_time_to_live_leaves_nothing(number: int, moment: Moment) -> None:
    async with Cluster() as cluster:
        await cluster.start_operator()
        running = cluster._operator
        assert running is not None
        crash = Crash(number, moment, running.cancel)
        cluster.server.faults = crash

        async def life() -> None:
            job = distributed(runPolicy={"ttlSecondsAfterFinished": 0})
            await cluster.create(job)
            await cluster.run_workers(2)
            await cluster.end_pod(await cluster.run_master(), 0)

            async def gone() -> bool:
                with contextlib.suppress(NotFoundError):
                    await cluster.client.get(CHAINER_JOBS, NAME, "default")
                    return False
                left = [
                    child
                    for resource in (*CHILDREN, PODS)
                    for child in await cluster.all(resource)
                    if "chainerjob.kubeflow.org/name" in child["metadata"].get("labels", {})
                ]
                return not left

            await cluster.until(gone)

        living = asyncio.create_task(life())
        died = asyncio.create_task(crash.happened.wait())
        await asyncio.wait({living, died}, return_when=asyncio.FIRST_COMPLETED)
        if crash.happened.is_set():
            await cluster.kill_operator()
            await cluster.start_operator()
        await living
        died.cancel()
