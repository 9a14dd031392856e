"""The run policy: deadlines, suspension, what is left when a job has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .manifests import job
from .scenario import scenario
from .stage import uid

if TYPE_CHECKING:
    from .stage import Stage


@scenario()
async def deadline(stage: Stage) -> None:
    """A master that is active for too long is ended, and the job has failed."""
    await stage.create(job("late", workers=1, master={"activeDeadlineSeconds": 20}))
    await stage.phase("late", "Running")
    await stage.phase("late", "Failed", reason="DeadlineExceeded")
    await stage.at_rest()


@scenario()
async def suspended_and_resumed(stage: Stage) -> None:
    """Suspending takes all pods away; resuming starts anew, and nothing counts as a restart."""
    await stage.create(job("pause", workers=1))
    first = await stage.master()
    await stage.phase("pause", "Running")
    await stage.edit("pause", {"runPolicy": {"suspend": True}})
    await stage.phase("pause", "Suspended", reason="ChainerJobSuspended")
    await stage.at_rest()
    assert not stage.recording.all("Pod")
    await stage.edit("pause", {"runPolicy": {"suspend": False}})
    second = await stage.master(after=first)
    await stage.phase("pause", "Running", restarts="0")
    await stage.end(second, 0)
    await stage.phase("pause", "Succeeded")
    await stage.at_rest()


@scenario()
async def created_suspended(stage: Stage) -> None:
    """A job that is created suspended makes nothing until it is resumed."""
    await stage.create(job("held", runPolicy={"suspend": True}))
    await stage.phase("held", "Suspended", reason="ChainerJobSuspended")
    await stage.at_rest()
    assert not stage.recording.all("Job")
    await stage.edit("held", {"runPolicy": {"suspend": False}})
    master = await stage.master()
    await stage.phase("held", "Running")
    await stage.end(master, 0)
    await stage.phase("held", "Succeeded")
    await stage.at_rest()


@scenario()
async def time_to_live(stage: Stage) -> None:
    """A finished job deletes itself, and everything it made goes with it."""
    await stage.create(job("brief", workers=1, runPolicy={"ttlSecondsAfterFinished": 15}))
    master = await stage.master()
    await stage.phase("brief", "Running")
    await stage.end(master, 0)
    await stage.phase("brief", "Succeeded")
    await stage.nothing_of("brief")


@scenario()
async def all_pods_cleaned(stage: Stage) -> None:
    """With cleanPodPolicy All the master's pod goes, too, and is not made again."""
    await stage.create(job("clean", workers=1, runPolicy={"cleanPodPolicy": "All"}))
    master = await stage.master()
    await stage.phase("clean", "Running")
    await stage.end(master, 0)
    await stage.phase("clean", "Succeeded")
    await stage.gone("Pod", master["metadata"]["name"])
    await stage.at_rest()
    assert not stage.recording.all("Pod")


@scenario()
async def no_pods_cleaned(stage: Stage) -> None:
    """With cleanPodPolicy None the workers stay."""
    await stage.create(job("keep", workers=1, runPolicy={"cleanPodPolicy": "None"}))
    master = await stage.master()
    await stage.phase("keep", "Running")
    await stage.end(master, 0)
    await stage.phase("keep", "Succeeded")
    await stage.at_rest(workers=1)


@scenario()
async def deleted_while_it_runs(stage: Stage) -> None:
    """Deleting a job that runs leaves nothing behind; the name can be used again at once."""
    await stage.create(job("short", workers=2))
    first = await stage.master()
    await stage.phase("short", "Running", workersReady="2/2")
    await stage.at_rest(workers=2)
    await stage.delete("short")
    await stage.nothing_of("short")
    await stage.create(job("short"))
    second = await stage.master()
    assert uid(first) != uid(second)
    await stage.phase("short", "Running")
    await stage.end(second, 0)
    await stage.phase("short", "Succeeded")
    await stage.at_rest()
