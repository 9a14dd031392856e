"""Jobs on a real cluster while the operator and the components it depends on fail.

Whatever happens: every job ends as expected, nothing is created twice, nothing is left behind, and
final states do not change.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

import variation
from traincrew.operator.options import OperatorOptions

from .faults.cases import (
    check_case,
    fails,
    is_deleted,
    is_scaled,
    is_suspended,
    prefer,
    run_case,
    succeeds,
)
from .faults.jobs import HELPER_IMAGE, chainer_job, work
from .faults.namespace import FaultNamespace
from .faults.operators import LEADING, READY, Operator, kept_running
from .faults.proxy import Proxy
from .faults.report import teller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from hack.cluster import RealCluster

    from .faults.cases import Case

pytestmark = pytest.mark.timeout(1500)
KILLS = 50


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """A function that shows a measurement."""
    return teller(request)


@pytest.fixture
async def namespace(cluster: RealCluster) -> AsyncIterator[FaultNamespace]:
    """A namespace."""
    async with FaultNamespace(cluster, "faults") as opened:
        yield opened


def operator_of(
    namespace: FaultNamespace, kubeconfig: Path, directory: Path, *arguments: str
) -> Operator:
    """Return an operator for one namespace."""
    return Operator(
        kubeconfig,
        directory / "operator.log",
        f"--namespace={namespace.namespace}",
        f"--lease-namespace={namespace.namespace}",
        f"--helper-image={HELPER_IMAGE}",
        *arguments,
    )


async def all_end_well(namespace: FaultNamespace, cases: list[Case]) -> None:
    """What must hold after the end of all cases."""
    wrong = [line for case in cases for line in await check_case(namespace, case)]
    assert wrong == []


# -- the operator ---------------------------------------------------------------------------------


def nineteen_jobs() -> list[Case]:
    """Of every sort."""
    sizes = [[1, 2], [2, 1], [1, 3, 2]]
    return [
        *(succeeds(f"succeeds-{number}", 2 + number) for number in range(5)),
        *(fails(f"fails-{number}", retries=number % 2) for number in range(4)),
        *(is_suspended(f"suspended-{number}") for number in range(4)),
        *(is_deleted(f"deleted-{number}", None if number else 1) for number in range(3)),
        *(is_scaled(f"scaled-{number}", steps) for number, steps in enumerate(sizes)),
    ]


def held_until(event: asyncio.Event) -> Callable[[FaultNamespace, str], Awaitable[None]]:
    """Return the actions of a user who ends the master only after something has happened."""

    async def act(namespace: FaultNamespace, name: str) -> None:
        await event.wait()
        await namespace.let_master_end(name)

    return act


async def test_fifty_kills_during_twenty_jobs(
    cluster: RealCluster, namespace: FaultNamespace, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    rng = random.Random(variation.NUMBER)
    cases = nineteen_jobs()
    rng.shuffle(cases)
    # This one outlives all kills, so that each kill interrupts work even on a slow machine.
    cases.insert(0, is_scaled("outlives", [1]))
    held = asyncio.Event()
    cases[0].act = held_until(held)
    playing: list[asyncio.Task[None]] = []
    disturbing = 0
    async with operator_of(
        namespace, cluster.kubeconfig, tmp_path, "--no-leader-elect"
    ) as operator:
        began = time.monotonic()
        for kill in range(KILLS):
            # Spread over all kills but the last few, even on a fast machine.
            due = cases[len(playing) : len(cases) * (kill + 3) // KILLS]
            playing += [asyncio.create_task(run_case(namespace, case)) for case in due]
            await operator.start()
            if rng.random() < 0.8:
                await operator.says(READY)  # or it is killed while it starts
            await asyncio.sleep(rng.uniform(0, 1.5))
            await operator.kill()
            disturbing += any(not task.done() for task in playing)
        tell(f"{KILLS} kills in {time.monotonic() - began:.0f} s")
        assert disturbing == KILLS
        held.set()
        await operator.start()
        await asyncio.gather(*playing)
        await all_end_well(namespace, cases)


# -- the control plane ----------------------------------------------------------------------------


def some_jobs() -> list[Case]:
    """Return one case of every sort, running long enough to be disturbed."""
    return [
        succeeds("succeeds", 8),
        fails("fails", retries=1),
        is_suspended("suspended"),
        is_deleted("deleted", 1),
        is_scaled("scaled", [1, 2]),
    ]


async def disturb(namespace: FaultNamespace, fault: Awaitable[None]) -> float:
    """Let jobs run, inject a fault in the middle, and check that all end as expected.

    Returns:
        Seconds from the end of the fault to the end of the last job.
    """
    cases = some_jobs()
    playing = [asyncio.create_task(run_case(namespace, case)) for case in cases]
    await namespace.until_phase("succeeds", "Running")
    await fault
    mended = time.monotonic()
    await asyncio.gather(*playing)
    seconds = time.monotonic() - mended
    await all_end_well(namespace, cases)
    return seconds


@pytest.mark.parametrize("component", ["kube-apiserver", "etcd"])
async def test_restart(
    cluster: RealCluster,
    namespace: FaultNamespace,
    tmp_path: Path,
    tell: Callable[[str], None],
    component: str,
) -> None:
    """The API server is killed, down for some seconds, and restarted."""

    async def restart() -> None:
        process = cluster.component(component)
        await asyncio.to_thread(process.kill)
        await asyncio.sleep(4)
        process.start()
        await asyncio.to_thread(cluster.wait)

    operator = operator_of(namespace, cluster.kubeconfig, tmp_path)
    async with kept_running(operator):
        await operator.says(LEADING)
        tell(f"all jobs had ended {await disturb(namespace, restart()):.1f} s after it was back")
        assert "Traceback" not in operator.said()


async def test_thirty_seconds_without_the_api_server(
    cluster: RealCluster, namespace: FaultNamespace, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """The operator gives up its leadership, takes it again, and finds that jobs progressed."""
    async with Proxy(cluster.kubeconfig, tmp_path, "proxy") as proxy:
        operator = operator_of(namespace, proxy.kubeconfig, tmp_path)

        async def cut() -> None:
            proxy.cut()
            await asyncio.sleep(30)
            proxy.mend()

        async with operator:
            await operator.start()
            await operator.says(LEADING)
            tell(f"all jobs had ended {await disturb(namespace, cut()):.1f} s after the cut")
            given_up = f"not renewed within {OperatorOptions().renew_deadline:g} s"
            assert given_up in operator.said()
            assert operator.is_running


async def test_a_watch_that_is_too_old(
    cluster: RealCluster, namespace: FaultNamespace, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """Changes made while the operator was cut off are not in any watch any more."""
    async with Proxy(cluster.kubeconfig, tmp_path, "proxy") as proxy:
        operator = operator_of(namespace, proxy.kubeconfig, tmp_path, "--no-leader-elect")
        mended = 0.0

        async def miss() -> None:
            nonlocal mended
            proxy.cut()
            await namespace.delete("missed")
            await namespace.until_gone("missed")
            await namespace.finished_pod("succeeds")
            await asyncio.to_thread(compact, cluster)
            # The API server has a watch cache of its own, which a restart empties.
            await asyncio.to_thread(cluster.component("kube-apiserver").restart)
            await asyncio.to_thread(cluster.wait)
            mended = time.monotonic()
            proxy.mend()

        async with operator:
            await operator.start()
            await operator.says(READY)
            await namespace.create(chainer_job("missed", work(3600)))
            await namespace.until_phase("missed", "Running")
            tell(f"all jobs had ended {await disturb(namespace, miss()):.1f} s later")
            assert proxy.expired > 0
            assert not [write for write in proxy.job_writes(since=mended) if "missed" in write.path]
            assert "watch expired, listing again" in operator.said()


def compact(cluster: RealCluster) -> None:
    """Compact etcd's whole history."""
    etcd = f"http://{cluster.network.address}:2379/v3/kv"

    def ask(what: str, document: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(f"{etcd}/{what}", json.dumps(document).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    revision = ask("range", {"key": base64.b64encode(b"nothing").decode()})["header"]["revision"]
    ask("compaction", {"revision": revision, "physical": True})


# -- nodes -----------------------------------------------------------------------


OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


async def test_a_node_is_lost(
    cluster: RealCluster, namespace: FaultNamespace, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """No second master runs while the first is unknown; evicted pods move without a retry."""
    other, lost = cluster.nodes
    moves, waits = succeeds("moves", 12), is_scaled("waits", [2])
    prefer(moves, lost.name)
    prefer(waits, other.name)
    operator = operator_of(namespace, cluster.kubeconfig, tmp_path)
    async with kept_running(operator):
        await operator.says(LEADING)
        # The one that ends by itself comes last: it must still exist when the node is lost.
        for case in (waits, moves):
            await namespace.create(case.manifest)
            await namespace.until_phase(case.name, "Running")
        assert await namespace.nodes_of("moves") == {lost.name}
        assert await namespace.nodes_of("waits") == {other.name, lost.name}
        began = time.monotonic()
        try:
            await asyncio.to_thread(lost.kill)
            noticed = await namespace.until_phase("waits", "Restarting") - began
            await namespace.until_given_up("moves")
            await namespace.until_given_up("waits")
            assert len(await namespace.pods_of("moves")) == 1
            cluster.kubectl("taint", "node", lost.name, f"{OUT_OF_SERVICE}=off:NoExecute")
            given_up = time.monotonic()
            ended = await namespace.until_phase("moves", "Succeeded") - given_up
            await namespace.until_workers("waits", 2)
            await namespace.until_phase("waits", "Running")
            assert await namespace.nodes_of("waits") == {other.name}
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
        await namespace.let_master_end("waits")
        await all_end_well(namespace, [moves, waits])
