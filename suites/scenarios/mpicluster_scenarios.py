"""MPIClusters: how they begin, are scaled, end, are suspended, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.engine.resources import STATEFUL_SETS
from traincrew.operator.kinds import RESOURCES

from .context import uid
from .manifests import GATE, WAIT_AND_LINGER
from .mpiclusters import at_rest, hostfile, hosts, interactive, one_shot, ready, scale
from .scenario import scenario

if TYPE_CHECKING:
    from .context import ScenarioContext
    from .recording import Document

(CLUSTERS,) = [resource for resource in RESOURCES if resource.kind == "MPICluster"]


# -- interactive ----------------------------------------------------------------------------------


@scenario()
async def mpi_interactive(context: ScenarioContext) -> None:
    """The master of an MPICluster starts after its workers, with a hostfile and ssh keys."""
    await context.create(interactive("hosts", workers=2))
    pods = await ready(context, "hosts", "master", "worker-0", "worker-1")
    await context.phase("hosts", "Running", mode="Interactive", workersReady="2/2")
    await hostfile(context, "hosts", "master", "worker-0", "worker-1")
    for pod in (pods["master"], pods["worker-1"]):
        listed = await context.execute(pod, "ls /ssh-key/openmpi; hostname")
        assert listed.split() == [
            *("authorized_keys", "id_ed25519", "id_ed25519.pub", "id_rsa", "id_rsa.pub"),
            pod["metadata"]["name"],
        ]
    await at_rest(context, "hosts", "master", "worker-0", "worker-1")


@scenario()
async def mpi_scaled(context: ScenarioContext) -> None:
    """The hostfile follows `kubectl scale` of an MPICluster or of its StatefulSet, down to 0."""
    await context.create(interactive("scaled", workers=2))
    await ready(context, "scaled", "master", "worker-0", "worker-1")
    await context.phase("scaled", "Running")
    await scale(context, STATEFUL_SETS, "scaled-worker", 1)
    await hostfile(context, "scaled", "master", "worker-0")
    await context.phase("scaled", "Running", workersReady="1/1")
    await scale(context, CLUSTERS, "scaled", 0)
    await hostfile(context, "scaled", "master")
    await ready(context, "scaled", "master")
    await scale(context, CLUSTERS, "scaled", 1)
    await ready(context, "scaled", "master", "worker-0")
    await hostfile(context, "scaled", "master", "worker-0")
    await context.phase("scaled", "Running", workersReady="1/1", restarts="0")
    await at_rest(context, "scaled", "master", "worker-0")


@scenario()
async def mpi_master_lost(context: ScenarioContext) -> None:
    """A master that somebody deletes is created again; the workers stay."""
    job = interactive("lost")
    (master,) = job["spec"]["master"]["template"]["spec"]["containers"]
    master["command"] = ["sh", "-c", WAIT_AND_LINGER]
    await context.create(job)
    first = await ready(context, "lost", "master", "worker-0")
    await context.phase("lost", "Running")
    await context.delete_pod(first["master"])
    second = await ready(context, "lost", "master", "worker-0", after=first["master"])
    assert uid(first["worker-0"]) == uid(second["worker-0"])
    await context.phase("lost", "Running", restarts="1")
    await hostfile(context, "lost", "master", "worker-0")
    await at_rest(context, "lost", "master", "worker-0")


@scenario()
async def mpi_options(context: ScenarioContext) -> None:
    """Gateway, disruption budget and network policies come and go with their fields."""
    await context.create(interactive("options"))
    await ready(context, "options", "master", "worker-0")
    await context.phase("options", "Running")
    on, off = {"enabled": True}, {"enabled": False}
    port = {"enabled": True, "nodePort": 30229}
    await context.edit(
        "options",
        {
            "ssh": {"gateway": port},
            "networkPolicy": on,
            "workers": {"podDisruptionBudget": on},
        },
    )
    there = context.recording.find
    await context.until("the gateway is there", lambda: there("Service", "options-ssh-gateway"))
    await context.until(
        "the budget is there", lambda: there("PodDisruptionBudget", "options-worker-pdb")
    )
    await context.until(
        "the policies are there",
        lambda: there("NetworkPolicy", "options-allow-from-external"),
    )
    # Each edit is reported, if the next one does not come before that.
    await at_rest(context, "options", "master", "worker-0")
    await context.edit(
        "options",
        {"ssh": {"gateway": off}, "networkPolicy": off, "workers": {"podDisruptionBudget": off}},
    )
    await context.gone("Service", "options-ssh-gateway")
    await context.gone("PodDisruptionBudget", "options-worker-pdb")
    await context.gone("NetworkPolicy", "options-allow-internal")
    await at_rest(context, "options", "master", "worker-0")


# -- one-shot -------------------------------------------------------------------------------------


@scenario()
async def mpi_one_shot(context: ScenarioContext) -> None:
    """An MPICluster succeeds with its command; then its workers are scaled to 0."""
    script = 'cat "$HOSTFILE"\n' + GATE
    await context.create(await one_shot(context, "once", script, workers=2))
    pods = await ready(context, "once", "master", "worker-0", "worker-1")
    await context.phase("once", "Running", mode="OneShot")
    await context.end(pods["master"], 0)
    await context.phase("once", "Succeeded", exitCode="0")
    await at_rest(context, "once", "master")
    log = await context.keep_log(pods["master"])
    assert log == "once-master.once\nonce-worker-0.once\nonce-worker-1.once\n"


@scenario()
async def mpi_retried(context: ScenarioContext) -> None:
    """A command that fails is run again in its pod; the workers are scaled down afterwards, too."""
    await context.create(await one_shot(context, "again"))
    pods = await ready(context, "again", "master", "worker-0")
    await context.phase("again", "Running")
    await context.end(pods["master"], 3)
    await context.restarted(pods["master"], 1)
    await context.phase("again", "Running", failures="1")
    await context.end(pods["master"], 0)
    await context.phase("again", "Succeeded", exitCode="0", failures="1")
    await at_rest(context, "again", "master")


@scenario()
async def mpi_backoff_limit(context: ScenarioContext) -> None:
    """A command that fails more often than the back-off limit allows is stopped."""
    job = await one_shot(context, "limit", runPolicy={"backoffLimit": 0})
    await context.create(job)
    pods = await ready(context, "limit", "master", "worker-0")
    await context.phase("limit", "Running")
    await context.end(pods["master"], 7)
    await context.phase(
        "limit", "Failed", reason="BackoffLimitExceeded", message="exited with code 7", exitCode="7"
    )

    def stopped() -> bool:
        pod = hosts(context, "limit").get("master", {})
        return bool(pod.get("status", {}).get("phase") == "Failed")

    await context.until("the master has ended", stopped)
    await at_rest(context, "limit", "master")


# -- run policy, deletion, refusals ---------------------------------------------------------------


@scenario()
async def mpi_suspended(context: ScenarioContext) -> None:
    """Suspending an MPICluster ends all pods; resuming recreates them, which is no restart."""
    await context.create(interactive("pause"))
    first = await ready(context, "pause", "master", "worker-0")
    await context.phase("pause", "Running")
    await context.edit("pause", {"runPolicy": {"suspend": True}})
    await context.phase("pause", "Suspended", message="No pod is left.")
    await at_rest(context, "pause")
    await context.edit("pause", {"runPolicy": {"suspend": False}})
    second = await ready(context, "pause", "master", "worker-0")
    assert not set(map(uid, first.values())) & set(map(uid, second.values()))
    await context.phase("pause", "Running", restarts="0")
    await at_rest(context, "pause", "master", "worker-0")


@scenario()
async def mpi_deleted(context: ScenarioContext) -> None:
    """Deleting an MPICluster leaves nothing behind; its name can be used again, with new keys."""
    await context.create(interactive("short"))
    await ready(context, "short", "master", "worker-0")
    await context.phase("short", "Running")
    keys = context.recording.find("Secret", "short-ssh-key")
    assert keys is not None
    await context.delete("short")
    await context.nothing_of("short")
    await context.create(interactive("short"))
    await ready(context, "short", "master", "worker-0")
    await context.phase("short", "Running")
    others = context.recording.find("Secret", "short-ssh-key")
    assert others is not None
    assert others["data"]["id_rsa"] != keys["data"]["id_rsa"]
    await at_rest(context, "short", "master", "worker-0")


@scenario()
async def mpi_refused(context: ScenarioContext) -> None:
    """Mistakes in an MPICluster, and changes that it cannot follow, are refused."""
    job = interactive("refused", runPolicy={"suspend": True})
    spec = job["spec"]

    def changed(**more: object) -> Document:
        return {**job, "spec": {**spec, **more}}

    await context.refused("a key of the values", changed(mpiMaster={"oneShot": {}}))
    await context.refused("no master", {**job, "spec": {"workers": spec["workers"]}})
    empty = {**spec["master"], "oneShot": {"command": " "}}
    await context.refused("no command", changed(master=empty))
    other = {"spec": {"containers": [{"name": "other", "image": "x"}]}}
    await context.refused("no container mpi-worker", changed(workers={"template": other}))
    await context.refused(
        "too many workers", changed(workers={**spec["workers"], "replicas": 1001})
    )
    await context.create(job)
    await context.phase("refused", "Suspended")
    await context.edit_refused("another appName", "refused", {"appName": "other"})
    await context.edit_refused(
        "another mode", "refused", {"master": {"oneShot": {"command": "true"}}}
    )
    await at_rest(context, "refused")
