"""Failures and scaling of workers while the master runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .context import uid
from .manifests import GATE, WAIT, job, template
from .scenario import scenario

if TYPE_CHECKING:
    from .context import ScenarioContext


@scenario()
async def worker_deleted(context: ScenarioContext) -> None:
    """A deleted worker pod is recreated; the job reports it, and succeeds anyway."""
    document = job("lost", workers=2)
    # A worker counts as lost as soon as it is terminating. It takes a second to end, so that the
    # operator sees that before its successor is ready, even on a busy machine.
    slow = template(WAIT.replace("exit 0", "sleep 1; exit 0"))
    document["spec"]["workerSets"]["ws"]["template"] = slow
    await context.create(document)
    master = await context.master()
    await context.phase("lost", "Running", workersReady="2/2")
    _, victim = await context.running("workerset", 2)
    await context.delete_pod(victim)
    await context.phase("lost", "Restarting", reason="WorkersNotReady")
    await context.phase("lost", "Running", workersReady="2/2", restarts="1")
    assert uid(victim) not in map(uid, await context.running("workerset", 2))
    await context.end(master, 0)
    await context.phase("lost", "Succeeded")
    await context.at_rest()


@scenario()
async def worker_crashes(context: ScenarioContext) -> None:
    """A worker's container that ends is restarted in its pod.

    It stays unready for a while, or it would depend on the kubelet's timing who observes that.
    """
    document = job("crash", workers=1)
    probe = {"exec": {"command": ["true"]}, "initialDelaySeconds": 2, "periodSeconds": 1}
    worker_template = template(GATE, readinessProbe=probe)
    document["spec"]["workerSets"]["ws"]["template"] = worker_template
    await context.create(document)
    master = await context.master()
    await context.phase("crash", "Running", workersReady="1/1")
    (worker,) = await context.running("workerset", 1)
    await context.end(worker, 7)
    await context.phase("crash", "Running", workersReady="1/1", restarts="1")
    await context.restarted(worker, 1)
    await context.end(master, 0)
    await context.phase("crash", "Succeeded")
    await context.at_rest()


@scenario()
async def scaled(context: ScenarioContext) -> None:
    """Workers are added and removed with `replicas`, and sets with their keys."""
    await context.create(job("scaled", workers=1))
    master = await context.master()
    await context.phase("scaled", "Running", workersReady="1/1")
    await context.edit("scaled", {"workerSets": {"ws": {"replicas": 3}}})
    await context.running("workerset", 3)
    await context.phase("scaled", "Running", workersReady="3/3")
    await context.edit("scaled", {"workerSets": {"ws": {"replicas": 1}}})
    await context.at_rest(workers=1)
    await context.edit(
        "scaled", {"workerSets": {"more": {"replicas": 1, "template": template(WAIT)}}}
    )
    await context.phase("scaled", "Running", workersReady="2/2")
    await context.edit("scaled", {"workerSets": {"ws": None}})
    await context.gone("StatefulSet", "scaled-workerset-ws")
    await context.at_rest(workers=1)
    await context.phase("scaled", "Running", workersReady="1/1")
    await context.end(master, 0)
    await context.phase("scaled", "Succeeded", restarts="0")
    await context.at_rest()
