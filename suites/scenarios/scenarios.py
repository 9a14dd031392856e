"""The scenarios. Each is one coroutine: what a user does, and what they see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .manifests import GATE, LAUNCH, job

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .stage import Stage

Play = Any


class Scenario(NamedTuple):
    """One scenario.

    Attributes:
        name: Also of its namespace.
        play: What happens.
        alone: Others must not play at the same time, because it breaks what all of them share.
    """

    name: str
    play: Callable[[Stage], Awaitable[None]]
    alone: bool = False


ALL: dict[str, Scenario] = {}


def scenario(*, alone: bool = False) -> Callable[[Any], Any]:
    """Register a coroutine as a scenario; its name is the scenario's."""

    def register(play: Any) -> Any:
        name = play.__name__.replace("_", "-")
        ALL[name] = Scenario(name, play, alone)
        return play

    return register


@scenario()
async def master_only(stage: Stage) -> None:
    """A job without workers succeeds."""
    await stage.create(job("plain", "echo trained; " + GATE))
    master = await stage.master()
    await stage.phase("plain", "Running")
    await stage.end(master, 0)
    await stage.phase("plain", "Succeeded")
    await stage.at_rest()
    assert await stage.keep_log(master) == "trained\n"
    assert not stage.recording.all("StatefulSet")


@scenario()
async def mpi(stage: Stage) -> None:
    """The master starts a process in every pod, rank 0 in its own, and the job succeeds."""
    await stage.create(job("mpi", LAUNCH + GATE, workers=2))
    master = await stage.master()
    await stage.phase("mpi", "Running", workersReady="2/2")
    await stage.end(master, 0)
    await stage.phase("mpi", "Succeeded")
    await stage.at_rest()
    name = master["metadata"]["name"]
    ranks = [name, "mpi-workerset-ws-0", "mpi-workerset-ws-1"]
    lines = [f"rank on {rank}, slots=1" for rank in ranks]
    assert (await stage.keep_log(master)).splitlines() == lines


@scenario()
async def master_fails(stage: Stage) -> None:
    """Without retries the first failure of the master is the job's."""
    await stage.create(job("fails", workers=1))
    master = await stage.master()
    await stage.phase("fails", "Running")
    await stage.end(master, 1)
    await stage.phase("fails", "Failed", reason="BackoffLimitExceeded")
    await stage.at_rest()
