"""The run policy: deadlines, suspension, clean-up of finished jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .context import uid
from .manifests import EVERY_THREE_SECONDS, job
from .scenario import scenario

if TYPE_CHECKING:
    from .context import ScenarioContext


@scenario()
async def deadline(context: ScenarioContext) -> None:
    """A master that exceeds the active deadline is ended, and the job fails."""
    await context.create(job("late", workers=1, master={"activeDeadlineSeconds": 20}))
    await context.phase("late", "Running")
    await context.phase("late", "Failed", reason="DeadlineExceeded")
    await context.at_rest()


@scenario()
async def silent(context: ScenarioContext) -> None:
    """A job whose pods write nothing is restarted once, and then fails."""
    policy = {"progressDeadlineSeconds": 5, "backoffLimit": 1}
    document = job("silent", workers=1, runPolicy=policy)
    del document["spec"]["master"]["backoffLimit"]
    await context.create(document)
    first = await context.master()
    await context.phase("silent", "Running")
    await context.phase("silent", "Restarting", reason="NoProgress")
    await context.master(after=first)
    await context.phase("silent", "Failed", reason="NoProgress")
    await context.at_rest()


@scenario()
async def talkative(context: ScenarioContext) -> None:
    """A job that writes a line every three seconds is not ended by a deadline of five seconds."""
    policy = {"progressDeadlineSeconds": 5}
    await context.create(job("talks", EVERY_THREE_SECONDS, workers=1, runPolicy=policy))
    await context.master()
    await context.phase("talks", "Running")
    await context.phase("talks", "Succeeded", restarts="0")
    await context.at_rest()


@scenario()
async def suspended_and_resumed(context: ScenarioContext) -> None:
    """Suspending deletes all pods; resuming recreates them, and nothing counts as a restart."""
    await context.create(job("pause", workers=1))
    first = await context.master()
    await context.phase("pause", "Running")
    await context.edit("pause", {"runPolicy": {"suspend": True}})
    await context.phase("pause", "Suspended", reason="ChainerJobSuspended")
    await context.at_rest()
    assert not context.recording.all("Pod")
    await context.edit("pause", {"runPolicy": {"suspend": False}})
    second = await context.master(after=first)
    await context.phase("pause", "Running", restarts="0")
    await context.end(second, 0)
    await context.phase("pause", "Succeeded")
    await context.at_rest()


@scenario()
async def created_suspended(context: ScenarioContext) -> None:
    """A job that is created suspended has no children until it is resumed."""
    await context.create(job("held", runPolicy={"suspend": True}))
    await context.phase("held", "Suspended", reason="ChainerJobSuspended")
    await context.at_rest()
    assert not context.recording.all("Job")
    await context.edit("held", {"runPolicy": {"suspend": False}})
    master = await context.master()
    await context.phase("held", "Running")
    await context.end(master, 0)
    await context.phase("held", "Succeeded")
    await context.at_rest()


@scenario()
async def time_to_live(context: ScenarioContext) -> None:
    """A finished job is deleted after its TTL, and all its children with it."""
    await context.create(job("brief", workers=1, runPolicy={"ttlSecondsAfterFinished": 15}))
    master = await context.master()
    await context.phase("brief", "Running")
    await context.end(master, 0)
    await context.phase("brief", "Succeeded")
    await context.nothing_of("brief")


@scenario()
async def all_pods_cleaned(context: ScenarioContext) -> None:
    """With cleanPodPolicy All the master's pod is deleted, too, and is not recreated."""
    await context.create(job("clean", workers=1, runPolicy={"cleanPodPolicy": "All"}))
    master = await context.master()
    await context.phase("clean", "Running")
    await context.end(master, 0)
    await context.phase("clean", "Succeeded")
    await context.gone("Pod", master["metadata"]["name"])
    await context.at_rest()
    assert not context.recording.all("Pod")


@scenario()
async def no_pods_cleaned(context: ScenarioContext) -> None:
    """With cleanPodPolicy None the workers stay."""
    await context.create(job("keep", workers=1, runPolicy={"cleanPodPolicy": "None"}))
    master = await context.master()
    await context.phase("keep", "Running")
    await context.end(master, 0)
    await context.phase("keep", "Succeeded")
    await context.at_rest(workers=1)


@scenario()
async def deleted_while_it_runs(context: ScenarioContext) -> None:
    """Deleting a running job leaves nothing behind; its name can be reused at once."""
    await context.create(job("short", workers=2))
    first = await context.master()
    await context.phase("short", "Running", workersReady="2/2")
    await context.at_rest(workers=2)
    await context.delete("short")
    await context.nothing_of("short")
    await context.create(job("short"))
    second = await context.master()
    assert uid(first) != uid(second)
    await context.phase("short", "Running")
    await context.end(second, 0)
    await context.phase("short", "Succeeded")
    await context.at_rest()
