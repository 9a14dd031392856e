"""Two operators on a real cluster: one leads, the other stands by with warm caches.

However the leader ends (killed, cut off, frozen, stopped gracefully), the other one writes within
the duration of the Lease and a second; and writes that the old one has already sent, or tries to
send, do no harm when they arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from .faults.cases import Case, check_case, is_deleted, is_scaled, succeeds
from .faults.jobs import HELPER_IMAGE, UNTIL_TOLD, chainer_job, work
from .faults.namespace import FaultNamespace
from .faults.operators import LEADING, LOST, READY, Operator
from .faults.proxy import Held, Proxy
from .faults.report import teller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from hack.cluster import RealCluster


LEASE = 5.0
"""Seconds, the operator's default."""


@dataclass
class Replica:
    """One operator and its proxy."""

    name: str
    proxy: Proxy
    operator: Operator

    def acquired_at(self) -> float:
        """Return when it learned that it holds the Lease."""
        (first, *_) = [
            write.answered
            for write in self.proxy.writes
            if "/leases" in write.path and write.status in {200, 201}
        ]
        return first


@dataclass
class Pair:
    """A leader and a standby."""

    tell: Callable[[str], None]
    namespace: FaultNamespace
    leader: Replica
    standby: Replica

    async def take_over(self, ended: float, *, within: float) -> None:
        """Create a job; the standby has to write within this many seconds after ``ended``.

        It may take longer by the duration of ten requests as measured now: a machine under load
        answers late, and the operator cannot change that.
        """
        slowest = await self.namespace.round_trip()
        await self.namespace.create(chainer_job("next", work(1)))
        proxy = self.standby.proxy
        async with asyncio.timeout(60):
            while not proxy.job_writes():
                await asyncio.sleep(0.001)
        slowest = max(slowest, await self.namespace.round_trip())
        wrote = proxy.job_writes()[0].sent
        warm = wrote - self.standby.acquired_at()
        self.tell(
            f"the other one wrote {wrote - ended:.2f} s later,"
            f" {1000 * warm:.0f} ms after it had got the Lease;"
            f" a request took {1000 * slowest:.0f} ms"
        )
        assert wrote - ended <= within + 10 * slowest
        await self.namespace.until_phase("next", "Succeeded")


@pytest.fixture
async def pair(
    cluster: RealCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Pair]:
    """Two operators that serve one namespace, with a job that runs."""
    async with contextlib.AsyncExitStack() as stack:
        namespace = await stack.enter_async_context(FaultNamespace(cluster, "high-availability"))
        replicas: list[Replica] = []
        for name in ("first", "second"):
            proxy = await stack.enter_async_context(Proxy(cluster.kubeconfig, tmp_path, name))
            operator = Operator(
                proxy.kubeconfig,
                tmp_path / f"{name}.log",
                f"--namespace={namespace.namespace}",
                f"--lease-namespace={namespace.namespace}",
                f"--helper-image={HELPER_IMAGE}",
                "--workers=16",
            )
            await stack.enter_async_context(operator)
            await operator.start()
            await operator.says(READY)
            if not replicas:
                await operator.says(LEADING)
            replicas.append(Replica(name, proxy, operator))
        await namespace.create(chainer_job("running", work(3600)))
        await namespace.until_phase("running", "Running")
        assert replicas[1].proxy.job_writes() == [], "a standby writes nothing"
        yield Pair(teller(request), namespace, *replicas)


async def test_a_killed_leader_is_succeeded_within_the_lease(pair: Pair) -> None:
    await pair.leader.operator.kill()
    killed = time.monotonic()
    await pair.take_over(killed, within=LEASE + 1)


async def test_a_partitioned_leader_is_succeeded_within_the_lease_and_stands_by(
    pair: Pair,
) -> None:
    """The same process leads again when the other one is killed."""
    pair.leader.proxy.cut()
    cut = time.monotonic()
    await pair.take_over(cut, within=LEASE + 1)
    await pair.leader.operator.says(LOST)
    pair.leader.proxy.mend()
    await pair.namespace.create(chainer_job("later", work(1)))
    await pair.namespace.until_phase("later", "Succeeded")
    assert pair.leader.proxy.job_writes(since=cut + 4.5) == []

    await pair.standby.operator.kill()
    killed = time.monotonic()
    await pair.namespace.create(chainer_job("again", work(1)))
    await pair.namespace.until_phase("again", "Succeeded")
    wrote = pair.leader.proxy.job_writes(since=cut + 4.5)[0].sent
    slowest = await pair.namespace.round_trip()
    assert wrote - killed <= LEASE + 1 + 10 * slowest
    assert pair.leader.operator.is_running


async def test_a_frozen_leader_is_succeeded_within_the_lease_and_does_no_harm_later(
    pair: Pair,
) -> None:
    """It continues in the middle of what it was doing, before any timer fires."""
    await pair.namespace.edit("running", {"runPolicy": {"suspend": True}})
    pair.leader.operator.signal(signal.SIGSTOP)
    frozen = time.monotonic()
    await pair.take_over(frozen, within=LEASE + 1)
    await pair.namespace.until_phase("running", "Suspended", "ChainerJobSuspended")

    woken = time.monotonic()
    pair.leader.operator.signal(signal.SIGCONT)
    await pair.leader.operator.says(LOST)
    assert "not renewed within 4 s" in pair.leader.operator.said()
    await pair.namespace.create(chainer_job("later", work(1)))
    await pair.namespace.until_phase("later", "Succeeded")
    assert pair.leader.proxy.job_writes(since=woken) == []
    assert pair.leader.operator.is_running


async def test_a_leader_stopped_gracefully_hands_over_at_once(pair: Pair) -> None:
    """The Lease is released: apart from the machine's load it takes milliseconds."""
    pair.leader.operator.signal(signal.SIGTERM)
    stopped = time.monotonic()
    await pair.take_over(stopped, within=2)
    assert await pair.leader.operator.ended(30) == 0


# -- late writes ----------------------------------------------------------------------------


def held(pair: Pair, method: str, path: str, word: str = "") -> Held:
    """Hold back the leader's next write with this end of its path and this word in its body."""
    return pair.leader.proxy.hold(
        lambda write: (
            write.method == method and write.path.endswith(path) and word.encode() in write.body
        )
    )


async def hand_over(pair: Pair, *writes: Held) -> None:
    """Kill the leader with writes in flight; return when the other one leads."""
    async with asyncio.timeout(120):
        for write in writes:
            await write.caught.wait()
    pair.leader.operator.signal(signal.SIGTERM)
    assert await pair.leader.operator.ended(30) == 0
    await pair.standby.operator.says(LEADING)


async def test_late_creates_leave_no_second_child_and_no_orphan(pair: Pair) -> None:
    namespace = pair.namespace
    stays, goes = succeeds("stays", 1), is_deleted("goes", None)
    masters = [held(pair, "POST", "/jobs", f"{case.name}-master") for case in (stays, goes)]
    for case in (stays, goes):
        await namespace.create(case.manifest)
    await hand_over(pair, *masters)

    await namespace.until_phase("stays", "Succeeded")
    await namespace.until_phase("goes", "Running")
    await namespace.delete("goes")
    await namespace.until_gone("goes")

    assert [await write.deliver() for write in masters] == [409, 201]
    assert await check_case(namespace, stays) == []
    # Its owner is not there any more, so the garbage collector takes it.
    await namespace.until_gone("goes")


async def test_late_changes_undo_nothing(pair: Pair) -> None:
    namespace = pair.namespace
    scaled = is_scaled("scaled", [1])
    stopped = Case(chainer_job("stopped", UNTIL_TOLD), "Succeeded")
    # Long enough for the operator to see it run.
    quick = succeeds("quick", 4)
    for case in (scaled, stopped):
        await namespace.create(case.manifest)
    for case in (scaled, stopped):
        await namespace.until_phase(case.name, "Running")
    patches = [
        held(pair, "PATCH", "/statefulsets/scaled-workerset-ws0"),
        held(pair, "PATCH", "/jobs/stopped-master"),
        held(pair, "PATCH", "/chainerjobs/quick/status", '"phase":"Running"'),
    ]
    await namespace.create(quick.manifest)
    await namespace.edit("scaled", {"workerSets": {"ws0": {"replicas": 2}}})
    await namespace.edit("stopped", {"runPolicy": {"suspend": True}})
    await hand_over(pair, *patches)

    await namespace.until_workers("scaled", 2)
    await namespace.edit("scaled", {"workerSets": {"ws0": {"replicas": 1}}})
    await namespace.until_workers("scaled", 1)
    await namespace.until_phase("stopped", "Suspended", "ChainerJobSuspended")
    await namespace.edit("stopped", {"runPolicy": {"suspend": False}})
    await namespace.until_phase("stopped", "Running")
    await namespace.until_phase("quick", "Succeeded")
    before = len(pair.standby.proxy.job_writes())

    assert [await patch.deliver() for patch in patches] == [409, 409, 409]
    await namespace.let_master_end("stopped")
    await namespace.until_phase("stopped", "Succeeded")
    await namespace.let_master_end("scaled")
    for case in (scaled, stopped, quick):
        assert await check_case(namespace, case) == []
    repairs = [write.path for write in pair.standby.proxy.job_writes()[before:]]
    assert not any("quick" in path for path in repairs), "there was nothing to put right"


async def test_late_deletions_do_not_delete_recreated_objects(pair: Pair) -> None:
    namespace = pair.namespace
    shrinks = is_scaled("shrinks", [1])
    sets = shrinks.manifest["spec"]["workerSets"]
    sets["ws1"] = sets["ws0"]
    expires = chainer_job("expires", work(1), ttlSecondsAfterFinished=0)
    deletions = [
        held(pair, "DELETE", "/statefulsets/shrinks-workerset-ws1"),
        held(pair, "DELETE", "/chainerjobs/expires"),
    ]
    await namespace.create(shrinks.manifest)
    await namespace.until_phase("shrinks", "Running")
    await namespace.create(expires)
    await namespace.edit("shrinks", {"workerSets": {"ws1": None}})
    await hand_over(pair, *deletions)

    await namespace.until_workers("shrinks", 1)
    await namespace.edit("shrinks", {"workerSets": {"ws1": sets["ws0"]}})
    await namespace.until_workers("shrinks", 2)
    await namespace.until_gone("expires")
    await namespace.create(chainer_job("expires", work(5)))
    await namespace.until_phase("expires", "Running")
    before = await namespace.uids("shrinks") | await namespace.uids("expires")

    assert [await deletion.deliver() for deletion in deletions] == [409, 409]
    assert await namespace.uids("shrinks") | await namespace.uids("expires") == before
    await namespace.until_phase("expires", "Succeeded")
    await namespace.let_master_end("shrinks")
