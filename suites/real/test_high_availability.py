"""Two operators on a real cluster: one leads, the other stands by with warm caches.

However the leader goes (killed, cut off, frozen, told to end), the other one writes within the
duration of the Lease and a second; and what the old one had already sent, or would still like to
send, does no harm when it arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from .faults_support_desk import Desk
from .faults_support_jobs import (
    HELPER_IMAGE,
    UNTIL_TOLD,
    Story,
    chainer_job,
    is_deleted,
    is_scaled,
    succeeds,
    work,
)
from .faults_support_operators import LEADING, READY, Operator
from .faults_support_report import teller
from .faults_support_wire import Held, Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from hack.cluster import RealCluster


LEASE = 15.0
"""Seconds, the operator's default."""


@dataclass
class Replica:
    """One operator and its wire."""

    name: str
    wire: Wire
    operator: Operator

    def acquired_at(self) -> float:
        """When it was told that the Lease is its own."""
        (first, *_) = [
            write.answered
            for write in self.wire.writes
            if "/leases" in write.path and write.status in {200, 201}
        ]
        return first


@dataclass
class Pair:
    """A leader and a standby."""

    tell: Callable[[str], None]
    desk: Desk
    leader: Replica
    standby: Replica

    async def take_over(self, ended: float, *, within: float) -> None:
        """Create a job; the standby has to write so many seconds after ``ended`` at most.

        It may take ten requests longer, as long as those take here and now: a machine that does
        other things besides answers late, and the operator can do nothing about that.
        """
        slowest = await self.desk.round_trip()
        await self.desk.create(chainer_job("next", work(1)))
        wire = self.standby.wire
        async with asyncio.timeout(60):
            while not wire.job_writes():
                await asyncio.sleep(0.001)
        slowest = max(slowest, await self.desk.round_trip())
        wrote = wire.job_writes()[0].sent
        warm = wrote - self.standby.acquired_at()
        self.tell(
            f"the other one wrote {wrote - ended:.2f} s later,"
            f" {1000 * warm:.0f} ms after it had got the Lease;"
            f" a request took {1000 * slowest:.0f} ms"
        )
        assert wrote - ended <= within + 10 * slowest
        await self.desk.until_phase("next", "Succeeded")


@pytest.fixture
async def pair(
    cluster: RealCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Pair]:
    """Two operators that serve one namespace, with a job that runs."""
    async with contextlib.AsyncExitStack() as stack:
        desk = await stack.enter_async_context(Desk(cluster, "high-availability"))
        replicas: list[Replica] = []
        for name in ("first", "second"):
            wire = await stack.enter_async_context(Wire(cluster.kubeconfig, tmp_path, name))
            operator = Operator(
                wire.kubeconfig,
                tmp_path / f"{name}.log",
                f"--namespace={desk.namespace}",
                f"--lease-namespace={desk.namespace}",
                f"--helper-image={HELPER_IMAGE}",
                "--workers=16",
            )
            await stack.enter_async_context(operator)
            await operator.start()
            await operator.says(READY)
            if not replicas:
                await operator.says(LEADING)
            replicas.append(Replica(name, wire, operator))
        await desk.create(chainer_job("running", work(3600)))
        await desk.until_phase("running", "Running")
        assert replicas[1].wire.job_writes() == [], "a standby writes nothing"
        yield Pair(teller(request), desk, *replicas)


async def test_a_killed_leader_is_followed_within_the_lease(pair: Pair) -> None:
    await pair.leader.operator.kill()
    killed = time.monotonic()
    await pair.take_over(killed, within=LEASE + 1)


async def test_a_leader_cut_off_is_followed_within_the_lease_and_ends(pair: Pair) -> None:
    pair.leader.wire.cut()
    cut = time.monotonic()
    await pair.take_over(cut, within=LEASE + 1)
    assert await pair.leader.operator.ended(30) == 1
    pair.leader.wire.mend()
    assert pair.leader.wire.job_writes(since=cut + 10.5) == []


async def test_a_frozen_leader_is_followed_within_the_lease_and_wakes_up_harmless(
    pair: Pair,
) -> None:
    """It goes on in the middle of what it was doing, and has not been told the time yet."""
    await pair.desk.edit("running", {"runPolicy": {"suspend": True}})
    pair.leader.operator.signal(signal.SIGSTOP)
    frozen = time.monotonic()
    await pair.take_over(frozen, within=LEASE + 1)
    await pair.desk.until_phase("running", "Suspended", "ChainerJobSuspended")

    woken = time.monotonic()
    pair.leader.operator.signal(signal.SIGCONT)
    assert await pair.leader.operator.ended(30) == 1
    assert "not renewed within 10 s" in pair.leader.operator.said()
    assert pair.leader.wire.job_writes(since=woken) == []


async def test_a_leader_told_to_end_hands_over_at_once(pair: Pair) -> None:
    """Milliseconds, but for what else this machine has to do: the Lease is released."""
    pair.leader.operator.signal(signal.SIGTERM)
    told = time.monotonic()
    await pair.take_over(told, within=2)
    assert await pair.leader.operator.ended(30) == 0


# -- what arrives late ----------------------------------------------------------------------------


def held(pair: Pair, method: str, path: str, word: str = "") -> Held:
    """Hold back the leader's next write whose path ends so, and whose body has a word in it."""
    return pair.leader.wire.hold(
        lambda write: (
            write.method == method and write.path.endswith(path) and word.encode() in write.body
        )
    )


async def hand_over(pair: Pair, *writes: Held) -> None:
    """End the leader with writes on their way; return when the other one leads."""
    async with asyncio.timeout(120):
        for write in writes:
            await write.caught.wait()
    pair.leader.operator.signal(signal.SIGTERM)
    assert await pair.leader.operator.ended(30) == 0
    await pair.standby.operator.says(LEADING)


async def test_late_creates_make_no_second_child_and_leave_no_orphan(pair: Pair) -> None:
    desk = pair.desk
    stays, goes = succeeds("stays", 1), is_deleted("goes", None)
    masters = [held(pair, "POST", "/jobs", f"{story.name}-master") for story in (stays, goes)]
    for story in (stays, goes):
        await desk.create(story.manifest)
    await hand_over(pair, *masters)

    await desk.until_phase("stays", "Succeeded")
    await desk.until_phase("goes", "Running")
    await desk.delete("goes")
    await desk.until_gone("goes")

    assert [await write.deliver() for write in masters] == [409, 201]
    assert await desk.check(stays) == []
    # Its owner is not there any more, so the garbage collector takes it.
    await desk.until_gone("goes")


async def test_late_changes_undo_nothing(pair: Pair) -> None:
    desk = pair.desk
    scaled = is_scaled("scaled", [1])
    stopped = Story(chainer_job("stopped", UNTIL_TOLD), "Succeeded")
    # Long enough for the operator to see it run.
    told = succeeds("told", 4)
    for story in (scaled, stopped):
        await desk.create(story.manifest)
    for story in (scaled, stopped):
        await desk.until_phase(story.name, "Running")
    patches = [
        held(pair, "PATCH", "/statefulsets/scaled-workerset-ws0"),
        held(pair, "PATCH", "/jobs/stopped-master"),
        held(pair, "PATCH", "/chainerjobs/told/status", '"phase":"Running"'),
    ]
    await desk.create(told.manifest)
    await desk.edit("scaled", {"workerSets": {"ws0": {"replicas": 2}}})
    await desk.edit("stopped", {"runPolicy": {"suspend": True}})
    await hand_over(pair, *patches)

    await desk.until_workers("scaled", 2)
    await desk.edit("scaled", {"workerSets": {"ws0": {"replicas": 1}}})
    await desk.until_workers("scaled", 1)
    await desk.until_phase("stopped", "Suspended", "ChainerJobSuspended")
    await desk.edit("stopped", {"runPolicy": {"suspend": False}})
    await desk.until_phase("stopped", "Running")
    await desk.until_phase("told", "Succeeded")
    before = len(pair.standby.wire.job_writes())

    assert [await patch.deliver() for patch in patches] == [409, 409, 409]
    await desk.let_master_end("stopped")
    await desk.until_phase("stopped", "Succeeded")
    await desk.let_master_end("scaled")
    for story in (scaled, stopped, told):
        assert await desk.check(story) == []
    repairs = [write.path for write in pair.standby.wire.job_writes()[before:]]
    assert not any("told" in path for path in repairs), "there was nothing to put right"


async def test_late_deletions_delete_nothing_that_was_made_anew(pair: Pair) -> None:
    desk = pair.desk
    shrinks = is_scaled("shrinks", [1])
    sets = shrinks.manifest["spec"]["workerSets"]
    sets["ws1"] = sets["ws0"]
    expires = chainer_job("expires", work(1), ttlSecondsAfterFinished=0)
    deletions = [
        held(pair, "DELETE", "/statefulsets/shrinks-workerset-ws1"),
        held(pair, "DELETE", "/chainerjobs/expires"),
    ]
    await desk.create(shrinks.manifest)
    await desk.until_phase("shrinks", "Running")
    await desk.create(expires)
    await desk.edit("shrinks", {"workerSets": {"ws1": None}})
    await hand_over(pair, *deletions)

    await desk.until_workers("shrinks", 1)
    await desk.edit("shrinks", {"workerSets": {"ws1": sets["ws0"]}})
    await desk.until_workers("shrinks", 2)
    await desk.until_gone("expires")
    await desk.create(chainer_job("expires", work(5)))
    await desk.until_phase("expires", "Running")
    before = await desk.uids("shrinks") | await desk.uids("expires")

    assert [await deletion.deliver() for deletion in deletions] == [409, 409]
    assert await desk.uids("shrinks") | await desk.uids("expires") == before
    await desk.until_phase("expires", "Succeeded")
    await desk.let_master_end("shrinks")
