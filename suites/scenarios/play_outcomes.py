"""How jobs end: the master decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .manifests import GATE, LAUNCH, job
from .scenario import scenario

if TYPE_CHECKING:
    from .stage import Stage


@scenario()
async def master_only(stage: Stage) -> None:
    """A job without workers succeeds."""
    await stage.create(job("plain", "echo trained\n" + GATE))
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
    await stage.phase(
        "fails", "Failed", reason="BackoffLimitExceeded", message="exited with code 1"
    )
    await stage.at_rest()


@scenario()
async def master_fails_for_good(stage: Stage) -> None:
    """Two retries are used up, in a new pod each, and then the job fails."""
    await stage.create(job("again", workers=1, master={"backoffLimit": 2}))
    master = None
    for retry in range(3):
        master = await stage.master(after=master)
        await stage.phase("again", "Running")
        await stage.end(master, 2)
        if retry < 2:
            await stage.phase("again", "Restarting", message=f"({retry + 1}/2 retries used)")
    await stage.phase(
        "again", "Failed", reason="BackoffLimitExceeded", message="exited with code 2"
    )
    await stage.at_rest()
    assert len(stage.pods("master")) == 3


@scenario()
async def master_recovers(stage: Stage) -> None:
    """A failure that is followed by a success is a success."""
    await stage.create(job("recovers", master={"backoffLimit": 2}))
    first = await stage.master()
    await stage.phase("recovers", "Running")
    await stage.end(first, 139)
    await stage.phase("recovers", "Restarting", message="exited with code 139")
    second = await stage.master(after=first)
    await stage.phase("recovers", "Running", restarts="1")
    await stage.end(second, 0)
    await stage.phase("recovers", "Succeeded")
    await stage.at_rest()


@scenario()
async def master_restarts_in_place(stage: Stage) -> None:
    """With restartPolicy OnFailure the container is started again in its pod."""
    document = job("in-place", master={"backoffLimit": 3})
    document["spec"]["master"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    await stage.create(document)
    master = await stage.master()
    await stage.phase("in-place", "Running")
    await stage.end(master, 3)
    await stage.phase("in-place", "Running", restarts="1")
    master = await stage.restarted(master, 1)
    await stage.end(master, 0)
    await stage.phase("in-place", "Succeeded")
    await stage.at_rest()
    assert len(stage.pods("master")) == 1
