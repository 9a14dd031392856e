"""Controllers reach the same state when they are killed, refused or cut off at a write."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from local.controlplane import control_plane, template
from traincrew.engine.resources import JOBS, PODS, STATEFUL_SETS
from traincrew.local.apiserver.http.faults import Fault, refuse

if TYPE_CHECKING:
    from local.controlplane import World

WRITES = {"POST", "PUT", "PATCH", "DELETE"}


class FaultInjector:
    """Makes one write of the controllers fail, counted from the start."""

    def __init__(self, which: int, fault: Fault) -> None:
        self.which, self.fault = which, fault
        self.seen = 0
        self.struck = asyncio.Event()

    def __call__(self, method: str, path: str, agent: str) -> Fault | None:
        if agent != "control" or method not in WRITES or "/events" in path:
            return None
        self.seen += 1
        if self.seen != self.which:
            return None
        self.struck.set()
        return self.fault


async def finish_all(world: World, total: int) -> None:
    """Let the containers of a Job succeed as soon as they run."""
    done: set[str] = set()

    async def complete() -> bool:
        for pod in await world.pods():
            name = pod["metadata"]["name"]
            if pod["status"]["phase"] == "Running" and name not in done:
                done.add(name)
                await world.finish(pod)
        found = await world.get(JOBS, "pi") or {}
        kinds = [item["type"] for item in found.get("status", {}).get("conditions") or ()]
        return "Complete" in kinds

    await world.until(complete, "the Job is complete")
    assert len(done) == total, "too many pods were created"


JOB: dict[str, Any] = {
    "metadata": {"name": "pi"},
    "spec": {"completions": 3, "parallelism": 2, "template": template("Never")},
}


async def run_job(world: World) -> None:
    await world.create(JOBS, JOB)
    await finish_all(world, 3)
    status = (await world.get(JOBS, "pi") or {})["status"]
    assert status["succeeded"] == 3
    assert "failed" not in status
    assert status["uncountedTerminatedPods"] == {}

    async def free() -> bool:
        return not any("finalizers" in pod["metadata"] for pod in await world.pods())

    await world.until(free)


async def run_stateful_set(world: World) -> None:
    spec = {
        "replicas": 3,
        "serviceName": "web",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "a"}},
        "template": template(),
    }
    await world.create(STATEFUL_SETS, {"metadata": {"name": "web"}, "spec": spec})
    await world.until_status(STATEFUL_SETS, "web", readyReplicas=3, replicas=3)
    await world.client.patch(STATEFUL_SETS, "web", "default", patch={"spec": {"replicas": 1}})
    await world.until_status(STATEFUL_SETS, "web", readyReplicas=1, replicas=1)
    assert [pod["metadata"]["name"] for pod in await world.pods()] == ["web-0"]
    await world.client.delete(STATEFUL_SETS, "web", "default")
    await world.until_pods(0)


async def killed_at(which: int, scenario: Any) -> bool:
    """Run a scenario and kill the controllers at one write; False if there were fewer writes."""
    async with control_plane() as world:
        # The write is stored, but its response is lost.
        saboteur = FaultInjector(which, Fault(cut="after"))
        world.server.faults = saboteur

        async def killer() -> None:
            await saboteur.struck.wait()
            await world.restart()

        assassin = asyncio.create_task(killer())
        try:
            await scenario(world)
        finally:
            if assassin.done():
                assassin.result()
            assassin.cancel()
            await asyncio.gather(assassin, return_exceptions=True)
        return saboteur.struck.is_set()


@pytest.mark.parametrize("scenario", [run_job, run_stateful_set])
@pytest.mark.parametrize("which", range(2, 22, 4))
async def test_killed_at_a_write(scenario: Any, which: int) -> None:
    await killed_at(which, scenario)  # suites/faults does it at every write


@pytest.mark.parametrize("scenario", [run_job, run_stateful_set])
@pytest.mark.parametrize(
    "fault",
    [refuse(409), refuse(500), refuse(429, retry_after=0), Fault(cut="before"), Fault(cut="after")],
    ids=["conflict", "error", "busy", "lost", "unheard"],
)
async def test_every_third_write_fails(scenario: Any, fault: Fault) -> None:
    async with control_plane() as world:
        count = 0

        def sometimes(method: str, path: str, agent: str) -> Fault | None:
            nonlocal count
            if agent != "control" or method not in WRITES or "/events" in path:
                return None
            count += 1
            return fault if count % 3 == 0 else None

        world.server.faults = sometimes
        await scenario(world)


async def test_a_restart_does_not_change_running_pods() -> None:
    async with control_plane() as world:
        await world.create(JOBS, JOB)
        before = await world.until_pods(2)

        await world.restart()
        await world.client.patch(JOBS, "pi", "default", patch={"spec": {"parallelism": 3}})

        after = await world.until_pods(3)
        assert {pod["metadata"]["uid"] for pod in before} < {
            pod["metadata"]["uid"] for pod in after
        }
        await finish_all(world, 3)


async def test_pods_of_a_job_deleted_while_the_controllers_were_down_are_released() -> None:
    async with control_plane() as world:
        await world.create(JOBS, JOB)
        await world.until_pods(2)
        await world.control.kill()
        await world.client.delete(JOBS, "pi", "default")
        for pod in await world.pods():
            await world.client.delete(PODS, pod["metadata"]["name"], "default")

        await world.start()

        await world.until_pods(0)


async def test_a_deletion_that_lost_a_race_is_retried() -> None:
    async with control_plane() as world:
        spoiled: list[str] = []

        def conflict(method: str, path: str, agent: str) -> Fault | None:
            if agent != "control" or method != "DELETE" or spoiled.count(path) >= 4:
                return None
            spoiled.append(path)
            return refuse(409)

        world.server.faults = conflict
        await run_stateful_set(world)
        assert spoiled
