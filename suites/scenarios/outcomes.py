"""Outcomes of jobs, which are those of the master."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .manifests import GATE, LAUNCH, job
from .scenario import scenario

if TYPE_CHECKING:
    from .context import ScenarioContext


@scenario()
async def master_only(context: ScenarioContext) -> None:
    """A job without workers succeeds."""
    await context.create(job("plain", "echo trained\n" + GATE))
    master = await context.master()
    await context.phase("plain", "Running")
    await context.end(master, 0)
    await context.phase("plain", "Succeeded")
    await context.at_rest()
    assert await context.keep_log(master) == "trained\n"
    assert not context.recording.all("StatefulSet")


@scenario()
async def mpi(context: ScenarioContext) -> None:
    """The master starts a process in every pod, rank 0 in its own, and the job succeeds."""
    await context.create(job("mpi", LAUNCH + GATE, workers=2))
    master = await context.master()
    await context.phase("mpi", "Running", workersReady="2/2")
    await context.end(master, 0)
    await context.phase("mpi", "Succeeded")
    await context.at_rest()
    name = master["metadata"]["name"]
    ranks = [name, "mpi-workerset-ws-0", "mpi-workerset-ws-1"]
    lines = [f"rank on {rank}, slots=1" for rank in ranks]
    assert (await context.keep_log(master)).splitlines() == lines


@scenario()
async def master_fails(context: ScenarioContext) -> None:
    """Without retries the first failure of the master fails the job."""
    await context.create(job("fails", workers=1))
    master = await context.master()
    await context.phase("fails", "Running")
    await context.end(master, 1)
    await context.phase(
        "fails", "Failed", reason="BackoffLimitExceeded", message="exited with code 1"
    )
    await context.at_rest()


@scenario()
async def master_fails_for_good(context: ScenarioContext) -> None:
    """Two retries, each in a new pod, are used up, and then the job fails."""
    await context.create(job("again", workers=1, master={"backoffLimit": 2}))
    master = None
    for retry in range(3):
        master = await context.master(after=master)
        await context.phase("again", "Running")
        await context.end(master, 2)
        if retry < 2:
            await context.phase("again", "Restarting", message=f"({retry + 1}/2 retries used)")
    await context.phase(
        "again", "Failed", reason="BackoffLimitExceeded", message="exited with code 2"
    )
    await context.at_rest()
    assert len(context.pods("master")) == 3


@scenario()
async def master_recovers(context: ScenarioContext) -> None:
    """A job that fails and then succeeds has succeeded."""
    await context.create(job("recovers", master={"backoffLimit": 2}))
    first = await context.master()
    await context.phase("recovers", "Running")
    await context.end(first, 139)
    await context.phase("recovers", "Restarting", message="exited with code 139")
    second = await context.master(after=first)
    await context.phase("recovers", "Running", restarts="1")
    await context.end(second, 0)
    await context.phase("recovers", "Succeeded")
    await context.at_rest()


@scenario()
async def master_restarts_in_place(context: ScenarioContext) -> None:
    """With restartPolicy OnFailure the container is restarted in its pod."""
    document = job("in-place", master={"backoffLimit": 3})
    document["spec"]["master"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    await context.create(document)
    master = await context.master()
    await context.phase("in-place", "Running")
    await context.end(master, 3)
    await context.phase("in-place", "Running", restarts="1")
    master = await context.restarted(master, 1)
    await context.end(master, 0)
    await context.phase("in-place", "Succeeded")
    await context.at_rest()
    assert len(context.pods("master")) == 1
