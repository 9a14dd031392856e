"""The operator crashes at every write it makes, and another one takes over.

Whenever it crashes, and whether or not the write had reached the API: the job ends in the same
state as without the crash, nothing is created twice, nothing is counted twice or missed.

Every write has two crashes, before and after it. A run has a sample of them, one in `TURNS` or in
`TURNS_OF_PROCESSES`, and another one with each change of the code; with TRAINCREW_EVERY_EXAMPLE
set, it has all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Literal

import pytest
import yaml
from suites.faults.outcome import LIVES, is_write, live, result

import variation
from traincrew.local.apiserver.http.faults import Fault
from traincrew.operator.kinds import OF_OTHERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from suites.faults.life import Life

pytestmark = pytest.mark.usefixtures("impatient")
Moment = Literal["before", "after"]

TURNS = 12
TURNS_OF_PROCESSES = 3
EVERY = variation.EVERY in os.environ


def has_turn(number: int, place: int, turns: int) -> bool:
    """Return whether a run has this crash: a write by its number, before (0) or after (1) it."""
    return variation.has_turn(2 * number + place, turns)


class Crash:
    """Kills the operator at one of its writes."""

    def __init__(self, number: int, moment: Moment, kill: Callable[[], object]) -> None:
        self.left = number
        self.moment = moment
        self.kill = kill
        self.happened = asyncio.Event()

    def __call__(self, method: str, path: str, agent: str) -> Fault | None:
        """Inject the fault; the hook of the API server."""
        if self.happened.is_set():
            # A crashed process sends nothing more: data in flight is lost with the connection.
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


def moments(*, every: bool = True) -> list[Any]:
    """Return the crashes: the writes of every life cycle, before or after they reach the API.

    Args:
        every: Whether any write may be one; else one in several, in each of which a process ends.
    """
    return [
        pytest.param(life, number, moment, id=f"{type(life).__name__}-{number}-{moment}")
        for life in LIVES
        for number in numbers(life, every=every)
        for turn, moment in enumerate(("before", "after"))
        if (
            has_turn(number // life.stride, turn, TURNS)
            if every
            else has_turn(number // life.step, turn, TURNS_OF_PROCESSES)
        )
    ]


def numbers(life: Life, *, every: bool) -> range:
    """Return the writes of a life cycle at which the operator is killed, in this run."""
    most = life.writes[1]
    if not every:
        return range(1, most + 1, life.step)
    if EVERY:
        return range(1, most + 1)
    return range(1 + variation.NUMBER % life.stride, most + 1, life.stride)


@pytest.mark.parametrize(("life", "number", "moment"), moments())
async def test_a_crash_changes_nothing(
    undisturbed: Callable[[Life], dict[str, Any]], life: Life, number: int, moment: Moment
) -> None:
    expected = undisturbed(life)
    async with life.cluster() as cluster:
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
            f"--kinds={','.join(OF_OTHERS)}",
            stderr=asyncio.subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Make sure that it has ended."""
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
    async with life.cluster() as cluster:
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


# -- deletion of a finished job ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("life", "number", "moment"),
    [
        pytest.param(life, number, moment, id=f"{type(life).__name__}-{number}-{moment}")
        for row, life in enumerate(LIVES)
        if life.expires
        for number in range(1, 13)
        for turn, moment in enumerate(("before", "after"))
        if has_turn(number + row, turn, TURNS)
    ],
)
async def test_a_job_with_a_time_to_live_leaves_nothing(
    life: Life, number: int, moment: Moment
) -> None:
    async with life.cluster() as cluster:
        await cluster.start_operator()
        running = cluster._operator
        assert running is not None
        crash = Crash(number, moment, running.cancel)
        cluster.server.faults = crash

        async def until_gone() -> None:
            await cluster.create(life.expiring())
            await life.end(cluster)
            await cluster.until(lambda: life.has_expired(cluster))

        living = asyncio.create_task(until_gone())
        died = asyncio.create_task(crash.happened.wait())
        await asyncio.wait({living, died}, return_when=asyncio.FIRST_COMPLETED)
        if crash.happened.is_set():
            await cluster.kill_operator()
            await cluster.start_operator()
        await living
        died.cancel()
