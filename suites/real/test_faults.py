"""Jobs on a real cluster while everything under the operator breaks, and the operator itself.

Whatever happens: every job ends as it has to, nothing is made twice, nothing is left behind, and
what is final stays so.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from .faults_support_desk import Desk
from .faults_support_jobs import (
    HELPER_IMAGE,
    chainer_job,
    fails,
    is_deleted,
    is_scaled,
    is_suspended,
    prefer,
    succeeds,
    work,
)
from .faults_support_operators import LEADING, READY, Operator, kept_running
from .faults_support_report import teller
from .faults_support_wire import Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from hack.cluster import RealCluster

    from .faults_support_jobs import Story

pytestmark = pytest.mark.timeout(1500)
SEED = int(os.environ.get("TRAINCREW_FAULTS_SEED") or random.SystemRandom().randrange(10**6))
KILLS = 50


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Shows a measurement."""
    return teller(request)


@pytest.fixture
async def desk(cluster: RealCluster) -> AsyncIterator[Desk]:
    """A namespace."""
    async with Desk(cluster, "faults") as opened:
        yield opened


def operator_of(desk: Desk, kubeconfig: Path, directory: Path, *arguments: str) -> Operator:
    """An operator for one namespace."""
    return Operator(
        kubeconfig,
        directory / "operator.log",
        f"--namespace={desk.namespace}",
        f"--lease-namespace={desk.namespace}",
        f"--helper-image={HELPER_IMAGE}",
        *arguments,
    )


async def all_end_well(desk: Desk, stories: list[Story]) -> None:
    """What must hold after the end of all stories."""
    wrong = [line for story in stories for line in await desk.check(story)]
    assert wrong == []


# -- the operator ---------------------------------------------------------------------------------


def nineteen_jobs() -> list[Story]:
    """Of every sort."""
    sizes = [[1, 2], [2, 1], [1, 3, 2]]
    return [
        *(succeeds(f"succeeds-{number}", 2 + number) for number in range(5)),
        *(fails(f"fails-{number}", retries=number % 2) for number in range(4)),
        *(is_suspended(f"suspended-{number}") for number in range(4)),
        *(is_deleted(f"deleted-{number}", None if number else 1) for number in range(3)),
        *(is_scaled(f"scaled-{number}", steps) for number, steps in enumerate(sizes)),
    ]


def held_until(event: asyncio.Event) -> Callable[[Desk, str], Awaitable[None]]:
    """What a user does who tells the master to end only after something has happened."""

    async def act(desk: Desk, name: str) -> None:
        await event.wait()
        await desk.let_master_end(name)

    return act


async def test_fifty_kills_during_twenty_jobs(
    cluster: RealCluster, desk: Desk, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    tell(f"TRAINCREW_FAULTS_SEED={SEED}")
    rng = random.Random(SEED)
    stories = nineteen_jobs()
    rng.shuffle(stories)
    # However slow this machine is, no kill finds nothing to do: this one outlives them all.
    stories.insert(0, is_scaled("outlives", [1]))
    held = asyncio.Event()
    stories[0].act = held_until(held)
    playing: list[asyncio.Task[None]] = []
    disturbing = 0
    async with operator_of(desk, cluster.kubeconfig, tmp_path, "--no-leader-elect") as operator:
        began = time.monotonic()
        for kill in range(KILLS):
            # Spread over all kills but the last few, however fast this machine is.
            due = stories[len(playing) : len(stories) * (kill + 3) // KILLS]
            playing += [asyncio.create_task(desk.play(story)) for story in due]
            await operator.start()
            if rng.random() < 0.8:
                await operator.says(READY)  # else it is killed while it starts
            await asyncio.sleep(rng.uniform(0, 1.5))
            await operator.kill()
            disturbing += any(not task.done() for task in playing)
        tell(f"{KILLS} kills in {time.monotonic() - began:.0f} s")
        assert disturbing == KILLS
        held.set()
        await operator.start()
        await asyncio.gather(*playing)
        await all_end_well(desk, stories)


# -- what it stands on ----------------------------------------------------------------------------


def some_jobs() -> list[Story]:
    """One of every sort, going on for long enough to be disturbed."""
    return [
        succeeds("succeeds", 8),
        fails("fails", retries=1),
        is_suspended("suspended"),
        is_deleted("deleted", 1),
        is_scaled("scaled", [1, 2]),
    ]


async def disturb(desk: Desk, fault: Awaitable[None]) -> float:
    """Let jobs run, break something in the middle, and see that all end well.

    Returns:
        Seconds from the end of the fault to the end of the last job.
    """
    stories = some_jobs()
    playing = [asyncio.create_task(desk.play(story)) for story in stories]
    await desk.until_phase("succeeds", "Running")
    await fault
    mended = time.monotonic()
    await asyncio.gather(*playing)
    seconds = time.monotonic() - mended
    await all_end_well(desk, stories)
    return seconds


@pytest.mark.parametrize("component", ["kube-apiserver", "etcd"])
async def test_restart(
    cluster: RealCluster,
    desk: Desk,
    tmp_path: Path,
    tell: Callable[[str], None],
    component: str,
) -> None:
    """Killed, away for some seconds, started again."""

    async def restart() -> None:
        process = cluster.component(component)
        await asyncio.to_thread(process.kill)
        await asyncio.sleep(4)
        process.start()
        await asyncio.to_thread(cluster.wait)

    operator = operator_of(desk, cluster.kubeconfig, tmp_path)
    async with kept_running(operator):
        await operator.says(LEADING)
        tell(f"all jobs had ended {await disturb(desk, restart()):.1f} s after it was back")
        assert "Traceback" not in operator.said()


async def test_thirty_seconds_without_the_api_server(
    cluster: RealCluster, desk: Desk, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """The operator gives up its leadership, is started again, and finds the jobs further on."""
    async with Wire(cluster.kubeconfig, tmp_path, "wire") as wire:
        operator = operator_of(desk, wire.kubeconfig, tmp_path)

        async def cut() -> None:
            wire.cut()
            await asyncio.sleep(30)
            wire.mend()

        async with kept_running(operator):
            await operator.says(LEADING)
            tell(f"all jobs had ended {await disturb(desk, cut()):.1f} s after the cut")
        assert "not renewed within 10 s" in operator.said(ever=True)


async def test_a_watch_that_is_too_old(
    cluster: RealCluster, desk: Desk, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """What happened while the operator heard nothing is not in any watch any more."""
    async with Wire(cluster.kubeconfig, tmp_path, "wire") as wire:
        operator = operator_of(desk, wire.kubeconfig, tmp_path, "--no-leader-elect")
        mended = 0.0

        async def miss() -> None:
            nonlocal mended
            wire.cut()
            await desk.delete("missed")
            await desk.until_gone("missed")
            await desk.finished_pod("succeeds")
            await asyncio.to_thread(compact, cluster)
            # The API server keeps a history of its own, which a restart empties.
            await asyncio.to_thread(cluster.component("kube-apiserver").restart)
            await asyncio.to_thread(cluster.wait)
            mended = time.monotonic()
            wire.mend()

        async with operator:
            await operator.start()
            await operator.says(READY)
            await desk.create(chainer_job("missed", work(3600)))
            await desk.until_phase("missed", "Running")
            tell(f"all jobs had ended {await disturb(desk, miss()):.1f} s later")
            assert wire.expired > 0
            assert not [write for write in wire.job_writes(since=mended) if "missed" in write.path]
            assert "watch expired, listing again" in operator.said()


def compact(cluster: RealCluster) -> None:
    """Make etcd forget all history."""
    etcd = f"http://{cluster.network.address}:2379/v3/kv"

    def ask(what: str, document: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(f"{etcd}/{what}", json.dumps(document).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    revision = ask("range", {"key": base64.b64encode(b"nothing").decode()})["header"]["revision"]
    ask("compaction", {"revision": revision, "physical": True})


# -- what the jobs stand on -----------------------------------------------------------------------


OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


async def test_a_node_is_lost(
    cluster: RealCluster, desk: Desk, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """No second master runs while nobody knows of the first; given up, all pods move for free."""
    other, lost = cluster.nodes
    moves, waits = succeeds("moves", 12), is_scaled("waits", [2])
    prefer(moves, lost.name)
    prefer(waits, other.name)
    operator = operator_of(desk, cluster.kubeconfig, tmp_path)
    async with kept_running(operator):
        await operator.says(LEADING)
        # The one that ends by itself comes last: it has to be there still when the node is lost.
        for story in (waits, moves):
            await desk.create(story.manifest)
            await desk.until_phase(story.name, "Running")
        assert await desk.nodes_of("moves") == {lost.name}
        assert await desk.nodes_of("waits") == {other.name, lost.name}
        began = time.monotonic()
        try:
            await asyncio.to_thread(lost.kill)
            noticed = await desk.until_phase("waits", "Restarting") - began
            await desk.until_given_up("moves")
            await desk.until_given_up("waits")
            assert len(await desk.pods_of("moves")) == 1
            cluster.kubectl("taint", "node", lost.name, f"{OUT_OF_SERVICE}=off:NoExecute")
            given_up = time.monotonic()
            ended = await desk.until_phase("moves", "Succeeded") - given_up
            await desk.until_workers("waits", 2)
            await desk.until_phase("waits", "Running")
            assert await desk.nodes_of("waits") == {other.name}
        finally:
            await asyncio.to_thread(lost.start)
            await asyncio.to_thread(cluster.wait)
            cluster.kubectl(
                "taint", "node", lost.name, "--overwrite", f"{OUT_OF_SERVICE}=off:NoExecute"
            )
            cluster.kubectl("taint", "node", lost.name, f"{OUT_OF_SERVICE}-")
        tell(
            f"noticed after {noticed:.0f} s; {ended:.0f} s after it was given up all was done again"
        )
        await desk.let_master_end("waits")
        await all_end_well(desk, [moves, waits])
