"""Candidates of an election, and a network that loses, delays and refuses their requests."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from traincrew.engine.election import LeaderElector, LeadershipLost
from traincrew.engine.resources import LEASES
from traincrew.engine.testing import FakeServer


class Candidate:
    """An elector and the outcome of its election.

    Attributes:
        started: Whether it has led since it takes part.
        started_at: When its latest term began, on the clock of the event loop.
    """

    def __init__(self, server: FakeServer, identity: str, clock: Any = None, **times: Any) -> None:
        self.elector = LeaderElector(
            server.client(), "system", "lock", identity, clock=clock or server.clock, **times
        )
        self.started = False
        self.started_at = float("-inf")
        self.task = asyncio.create_task(self.elector.run(self._start))

    def _start(self) -> None:
        self.started = True
        self.started_at = now()

    def again(self) -> None:
        """Take part again, after a loss."""
        self.started = False
        self.task = asyncio.create_task(self.elector.run(self._start))

    async def stop(self, release: bool = True) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        if release:
            await self.elector.release()


def spec(server: FakeServer) -> dict[str, Any]:
    lease = server.stored(LEASES, "lock", "system")
    assert lease is not None
    return dict(lease["spec"])


def now() -> float:
    return asyncio.get_running_loop().time()


async def never_two_leaders(
    seed: int,
    candidate: Callable[[FakeServer, str], Candidate],
    *,
    step: float,
    delays: tuple[float, float],
) -> None:
    """Disturb three candidates at random; check at each step that at most one of them leads.

    Args:
        seed: Of the disturbances.
        candidate: Makes a candidate.
        step: Seconds between two checks.
        delays: The shortest and the longest delay of a response, in seconds.
    """
    rng = random.Random(seed)
    server = FakeServer()
    candidates = [candidate(server, str(number)) for number in range(3)]
    terms = 0
    for count in range(3000):
        await asyncio.sleep(step)
        if rng.random() < 0.04:
            disturb(server, rng, delays)
        leaders = [each for each in candidates if each.elector.is_leader()]
        assert len(leaders) <= 1, f"step {count}"
        for number, each in enumerate(candidates):
            if each.task.done():
                assert isinstance(each.task.exception(), LeadershipLost)
                if rng.random() < 0.5:
                    each.again()
                else:  # it was restarted
                    candidates[number] = candidate(server, f"{number}-{count}")
                terms += 1
    assert terms > 3, "the test did take leadership away"
    for each in candidates:
        await each.stop()


def disturb(server: FakeServer, rng: random.Random, delays: tuple[float, float]) -> None:
    times = rng.choice([1, 3, 10, 30])
    kind = rng.choice(["lost", "late", "error"])
    if kind == "lost":
        applied = rng.random() < 0.5
        error = ConnectionResetError("reset")
        server.fail(path="/leases", error=error, applied=applied, times=times)
    elif kind == "late":
        server.fail(path="/leases", delay=rng.uniform(*delays), times=times)
    else:
        server.fail(path="/leases", status=500, times=times)
