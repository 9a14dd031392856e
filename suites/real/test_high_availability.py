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
from .faults_support_jobs import HELPER_IMAGE, chainer_job, work
from .faults_support_operators import LEADING, READY, Operator
from .faults_support_report import teller
from .faults_support_wire import Wire

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

    async def take_over(self, ended: float) -> float:
        """Create a job, wait until the standby has written; returns seconds since ``ended``."""
        await self.desk.create(chainer_job("next", work(1)))
        wire = self.standby.wire
        async with asyncio.timeout(60):
            while not wire.job_writes():
                await asyncio.sleep(0.001)
        wrote = wire.job_writes()[0].sent
        warm = wrote - self.standby.acquired_at()
        self.tell(
            f"the other one wrote {wrote - ended:.2f} s later,"
            f" {1000 * warm:.0f} ms after it had got the Lease"
        )
        await self.desk.until_phase("next", "Succeeded")
        return wrote - ended


@pytest.fixture
async def pair(
    cluster: RealCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Pair]:
    """Two operators that serve one namespace, with a job that runs."""
    async with contextlib.AsyncExitStack() as stack:
        desk = await stack.enter_async_context(Desk(cluster, "high-availability"))
        replicas = []
        for name in ("first", "second"):
            wire = await stack.enter_async_context(Wire(cluster.kubeconfig, tmp_path, name))
            operator = Operator(
                wire.kubeconfig,
                tmp_path / f"{name}.log",
                f"--namespace={desk.namespace}",
                f"--lease-namespace={desk.namespace}",
                f"--helper-image={HELPER_IMAGE}",
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
    assert await pair.take_over(killed) <= LEASE + 1


async def test_a_leader_cut_off_is_followed_within_the_lease_and_ends(pair: Pair) -> None:
    pair.leader.wire.cut()
    cut = time.monotonic()
    assert await pair.take_over(cut) <= LEASE + 1
    assert await pair.leader.operator.ended(5) == 1
    pair.leader.wire.mend()
    assert pair.leader.wire.job_writes(since=cut + 10.5) == []


async def test_a_frozen_leader_is_followed_within_the_lease_and_wakes_up_harmless(
    pair: Pair,
) -> None:
    """It goes on in the middle of what it was doing, and has not been told the time yet."""
    await pair.desk.edit("running", {"runPolicy": {"suspend": True}})
    pair.leader.operator.signal(signal.SIGSTOP)
    frozen = time.monotonic()
    assert await pair.take_over(frozen) <= LEASE + 1
    await pair.desk.until_phase("running", "Suspended", "ChainerJobSuspended")

    pair.leader.operator.signal(signal.SIGCONT)
    assert await pair.leader.operator.ended(5) == 1
    assert "not renewed within 10 s" in pair.leader.operator.said()
    assert pair.leader.wire.job_writes(since=frozen + 0.1) == []


async def test_a_leader_told_to_end_hands_over_at_once(pair: Pair) -> None:
    """Milliseconds, but for what else this machine has to do: the Lease is released."""
    pair.leader.operator.signal(signal.SIGTERM)
    told = time.monotonic()
    assert await pair.take_over(told) <= 2
    assert await pair.leader.operator.ended(5) == 0
