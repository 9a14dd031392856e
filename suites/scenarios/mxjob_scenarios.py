"""Outcomes, restarts and run policy of MxJobs, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .context import uid
from .manifests import GATE, WAIT
from .mxjobs import (
    OLDER_GROUP,
    SHOW_ROLE,
    assert_others,
    at_rest,
    delete_job,
    distributed,
    end,
    local,
    replicas,
    running,
    template,
)
from .scenario import scenario

if TYPE_CHECKING:
    from .context import ScenarioContext
    from .recording import Document


# -- outcomes: those of the scheduler and the workers ---------------------------------------------


@scenario()
async def mxjob_local(context: ScenarioContext) -> None:
    """An MxJob with one worker succeeds; its RuntimeId is generated, and nothing is wired."""
    await context.create(local("alone", "echo trained\n" + SHOW_ROLE + GATE))
    pods = await running(context, "alone", 1)
    await context.phase("alone", "Running")
    await end(context, pods)
    await context.phase("alone", "Done", state="Succeeded")
    await at_rest(context)
    assert await context.keep_log(pods["worker-0"]) == "trained\n"
    assert not context.recording.all("Service")


@scenario()
async def mxjob_distributed(context: ScenarioContext) -> None:
    """Scheduler, servers and workers find each other; the MxJob succeeds when all have ended."""
    await context.create(distributed("many", SHOW_ROLE + GATE))
    pods = await running(context, "many", 4)
    await context.phase("many", "Running")
    await end(context, pods)
    await context.phase("many", "Done", state="Succeeded")
    await at_rest(context)
    for pod in pods.values():
        assert "DMLC_ROLE" in await context.keep_log(pod)


@scenario()
async def mxjob_server_stays(context: ScenarioContext) -> None:
    """Servers that do not end with the workers are stopped, and the MxJob succeeds."""
    document = distributed("stays", workers=1)
    document["spec"]["replicaSpecs"][1]["template"] = template(WAIT)
    await context.create(document)
    pods = await running(context, "stays", 3)
    await context.phase("stays", "Running")
    del pods["server-0"]
    await end(context, pods)
    await context.phase("stays", "Done", state="Succeeded")
    await at_rest(context)


@scenario()
async def mxjob_replica_fails(context: ScenarioContext) -> None:
    """A worker whose program fails fails the MxJob; the other replicas are stopped."""
    await context.create(distributed("fails"))
    pods = await running(context, "fails", 4)
    await context.phase("fails", "Running")
    await end(context, {"worker-1": pods["worker-1"]}, 3)
    await context.phase(
        "fails", "Done", state="Failed", reason="Worker 1 failed", message="exited with code 3"
    )
    await at_rest(context)
    assert list(replicas(context, "fails")) == ["worker-1"], "it stays for its log"


@scenario()
async def mxjob_out_of_memory(context: ScenarioContext) -> None:
    """A replica that needs more memory than its limit would do so again: the MxJob fails."""
    document = local("hungry")
    hungry = "exec dd if=/dev/zero of=/dev/null bs=100M"
    limits = {"limits": {"memory": "48Mi"}}
    document["spec"]["replicaSpecs"][0]["template"] = template(hungry, resources=limits)
    await context.create(document)
    await context.phase("hungry", "Done", state="Failed", reason="OOMKilled")
    await at_rest(context)


# -- restarts: no replica outlives another one ----------------------------------------------------


@scenario()
async def mxjob_server_killed(context: ScenarioContext) -> None:
    """When a server is killed, all replicas are restarted once; then the MxJob succeeds."""
    await context.create(distributed("again"))
    first = await running(context, "again", 4)
    await context.phase("again", "Running")
    await end(context, {"server-0": first["server-0"]}, 137)
    await context.phase(
        "again", "Creating", attempt="1", failures="1", lastRestartReason="Server 0 failed"
    )
    second = await running(context, "again", 4, attempt="1")
    assert_others(first, second)
    await context.phase("again", "Running", restarts="1")
    await end(context, second)
    await context.phase("again", "Done", state="Succeeded", attempt="1", failures="1")
    await at_rest(context)


@scenario()
async def mxjob_backoff_limit(context: ScenarioContext) -> None:
    """An MxJob whose worker is killed more often than the back-off limit allows fails."""
    await context.create(local("limit", runPolicy={"backoffLimit": 1}))
    for attempt in range(2):
        pods = await running(context, "limit", 1, attempt=str(attempt))
        await context.phase("limit", "Running", restarts=str(attempt))
        await end(context, pods, 139)
    await context.phase("limit", "Done", state="Failed", message="(spec.runPolicy.backoffLimit: 1)")
    await at_rest(context)


@scenario()
async def mxjob_evicted(context: ScenarioContext) -> None:
    """The eviction of a replica restarts all of them, and does not count as a failure."""
    await context.create(distributed("moved", workers=1, runPolicy={"backoffLimit": 0}))
    first = await running(context, "moved", 3)
    await context.phase("moved", "Running")
    await context.evict(first["worker-0"])
    second = await running(context, "moved", 3, attempt="1")
    assert_others(first, second)
    await context.phase("moved", "Running", attempt="1", restarts="1")
    assert "failures" not in context.job("moved")["status"]
    await end(context, second)
    await context.phase("moved", "Done", state="Succeeded")
    await at_rest(context)


@scenario()
async def mxjob_child_deleted(context: ScenarioContext) -> None:
    """A Job that somebody deletes is restarted with all others; this is no failure either."""
    await context.create(distributed("mended", workers=1, runPolicy={"backoffLimit": 0}))
    first = await running(context, "mended", 3)
    await context.phase("mended", "Running")
    await delete_job(context, first["server-0"])
    second = await running(context, "mended", 3, attempt="1")
    assert_others(first, second)
    await context.phase("mended", "Running", attempt="1", restarts="1")
    assert "failures" not in context.job("mended")["status"]
    await end(context, second)
    await context.phase("mended", "Done", state="Succeeded")
    await at_rest(context)


@scenario()
async def mxjob_worker_recovered(context: ScenarioContext) -> None:
    """With recoverWorkers a worker that was killed is recreated alone."""
    await context.create(distributed("recovers", recoverWorkers=True))
    first = await running(context, "recovers", 4)
    await context.phase("recovers", "Running")
    await end(context, {"worker-0": first["worker-0"]}, 137)
    second = await running(context, "recovers", 1, attempt="0-1")
    assert uid(second["worker-0"]) != uid(first["worker-0"])
    await context.phase("recovers", "Running", failures="1", restarts="1")
    await end(context, {**first, **second})
    await context.phase("recovers", "Done", state="Succeeded")
    await at_rest(context)


@scenario(alone=True)
async def mxjob_operator_killed(context: ScenarioContext) -> None:
    """A replica is killed while no operator runs; the next operator counts it once."""
    await context.create(distributed("left", workers=1))
    first = await running(context, "left", 3)
    await context.phase("left", "Running")
    await context.reported("left", "Created 3 jobs: ", "Created service: ")
    context.cluster.operator.kill()
    await end(context, {"scheduler-0": first["scheduler-0"]}, 137)
    name = first["scheduler-0"]["metadata"]["name"]
    await context.until("the scheduler has failed", lambda: context.has_failed(name))
    context.cluster.operator.start()
    second = await running(context, "left", 3, attempt="1")
    assert_others(first, second)
    await context.phase("left", "Running", failures="1", restarts="1")
    await end(context, second)
    await context.phase("left", "Done", state="Succeeded")
    await at_rest(context)


# -- run policy, refusals, API groups -------------------------------------------------------------


@scenario()
async def mxjob_suspended(context: ScenarioContext) -> None:
    """Suspending an MxJob deletes all pods; resuming recreates them, which is no restart."""
    await context.create(distributed("pause", workers=1))
    first = await running(context, "pause", 3)
    await context.phase("pause", "Running")
    await context.edit("pause", {"runPolicy": {"suspend": True}})
    await context.phase("pause", "Suspended")
    await at_rest(context)
    assert not context.recording.all("Pod")
    await context.edit("pause", {"runPolicy": {"suspend": False}})
    second = await running(context, "pause", 3, attempt="1")
    assert_others(first, second)
    await context.phase("pause", "Running", restarts="0")
    await end(context, second)
    await context.phase("pause", "Done", state="Succeeded")
    await at_rest(context)


@scenario()
async def mxjob_deadline(context: ScenarioContext) -> None:
    """An MxJob that exceeds the active deadline fails, and its pods are ended."""
    await context.create(local("late", runPolicy={"activeDeadlineSeconds": 15}))
    await context.phase("late", "Running")
    await context.phase("late", "Done", state="Failed", message="The job was active for 15 s")
    await at_rest(context)


@scenario()
async def mxjob_time_to_live(context: ScenarioContext) -> None:
    """A finished MxJob keeps no pods if it is to be so, and is deleted after its TTL."""
    policy = {"ttlSecondsAfterFinished": 8, "cleanPodPolicy": "All"}
    await context.create(local("brief", runPolicy=policy))
    pods = await running(context, "brief", 1)
    await context.phase("brief", "Running")
    await end(context, pods)
    await context.phase("brief", "Done", state="Succeeded")
    await context.gone("Pod", pods["worker-0"]["metadata"]["name"])
    await context.nothing_of("brief")


@scenario()
async def mxjob_deleted(context: ScenarioContext) -> None:
    """Deleting a running MxJob leaves nothing behind; its name can be used again at once."""
    await context.create(distributed("short", RuntimeId="r1"))
    first = await running(context, "short", 4)
    await context.phase("short", "Running", workersReady="4/4")
    await context.delete("short")
    await context.nothing_of("short")
    await context.create(distributed("short", RuntimeId="r1"))
    second = await running(context, "short", 4)
    assert_others(first, second)
    await context.phase("short", "Running")
    await end(context, second)
    await context.phase("short", "Done", state="Succeeded", restarts="0")
    await at_rest(context)


@scenario()
async def mxjob_refused(context: ScenarioContext) -> None:
    """Mistakes in an MxJob, and changes that a parameter server cannot follow, are refused."""
    job = distributed("refused", workers=1, runPolicy={"suspend": True})
    scheduler, server, worker = job["spec"]["replicaSpecs"]

    def changed(**spec: object) -> Document:
        return {**job, "spec": {**job["spec"], **spec}}

    await context.refused("a mode nobody knows", changed(jobMode="cluster"))
    await context.refused("no server", changed(replicaSpecs=[scheduler, worker]))
    two = {**scheduler, "replicas": 2}
    await context.refused("two schedulers", changed(replicaSpecs=[two, server, worker]))
    master = {**worker, "mxReplicaType": "MASTER"}
    await context.refused("a master", changed(replicaSpecs=[scheduler, server, master]))
    other = {"spec": {"containers": [{**template()["spec"]["containers"][0], "name": "other"}]}}
    wrong = {**worker, "template": other}
    await context.refused("no container mxnet", changed(replicaSpecs=[scheduler, server, wrong]))
    await context.refused("a misspelt field", changed(replica_specs=[]))

    await context.create(job)
    await context.phase("refused", "Suspended")
    more = {**worker, "replicas": 2}
    await context.edit_refused(
        "another number of workers", "refused", {"replicaSpecs": [scheduler, server, more]}
    )
    await context.edit_refused("another mode", "refused", {"jobMode": "local"})
    await context.edit_refused("another RuntimeId", "refused", {"RuntimeId": "other"})
    await at_rest(context)


@scenario()
async def mxjob_groups(context: ScenarioContext) -> None:
    """Two MxJobs of one name, one in each API group, do not touch each other's children."""
    await context.create(local("twin", RuntimeId="r1"))
    first = await running(context, "twin", 1)
    await context.phase("twin", "Running")
    await context.create(local("twin", group=OLDER_GROUP, RuntimeId="r1"))
    await context.phase("twin", "Creating", message='"twin-worker-r1-0" already exists')
    await context.delete("twin")
    await context.gone("MxJob.mlkube.io", "twin")
    await end(context, first)
    await context.until(
        "the first one has succeeded",
        lambda: context.recording.current["MxJob", "twin"]["status"].get("state") == "Succeeded",
    )
    await at_rest(context)
