"""What happens to workers while the master runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .manifests import GATE, WAIT, job, template
from .scenario import scenario
from .stage import uid

if TYPE_CHECKING:
    from .stage import Stage


@scenario()
async def worker_deleted(stage: Stage) -> None:
    """A worker's pod that is deleted comes back; the job says so, and that it succeeded anyway."""
    document = job("lost", workers=2)
    # A worker is lost as soon as it is to go. It takes a second for that, so that the operator sees
    # it before its successor is ready, however busy the machine is.
    slow = template(WAIT.replace("exit 0", "sleep 1; exit 0"))
    document["spec"]["workerSets"]["ws"]["template"] = slow
    await stage.create(document)
    master = await stage.master()
    await stage.phase("lost", "Running", workersReady="2/2")
    _, victim = await stage.running("workerset", 2)
    await stage.delete_pod(victim)
    await stage.phase("lost", "Restarting", reason="WorkersNotReady")
    await stage.phase("lost", "Running", workersReady="2/2", restarts="1")
    assert uid(victim) not in map(uid, await stage.running("workerset", 2))
    await stage.end(master, 0)
    await stage.phase("lost", "Succeeded")
    await stage.at_rest()


@scenario()
async def worker_crashes(stage: Stage) -> None:
    """A worker's container that ends is started again in its pod.

    It is not ready for a while then; else it would depend on the kubelet's pace who sees that.
    """
    document = job("crash", workers=1)
    probe = {"exec": {"command": ["true"]}, "initialDelaySeconds": 2, "periodSeconds": 1}
    worker_template = template(GATE, readinessProbe=probe)
    document["spec"]["workerSets"]["ws"]["template"] = worker_template
    await stage.create(document)
    master = await stage.master()
    await stage.phase("crash", "Running", workersReady="1/1")
    (worker,) = await stage.running("workerset", 1)
    await stage.end(worker, 7)
    await stage.phase("crash", "Running", workersReady="1/1", restarts="1")
    await stage.restarted(worker, 1)
    await stage.end(master, 0)
    await stage.phase("crash", "Succeeded")
    await stage.at_rest()


@scenario()
async def scaled(stage: Stage) -> None:
    """Workers come and go with `replicas`, and sets with their keys."""
    await stage.create(job("scaled", workers=1))
    master = await stage.master()
    await stage.phase("scaled", "Running", workersReady="1/1")
    await stage.edit("scaled", {"workerSets": {"ws": {"replicas": 3}}})
    await stage.running("workerset", 3)
    await stage.phase("scaled", "Running", workersReady="3/3")
    await stage.edit("scaled", {"workerSets": {"ws": {"replicas": 1}}})
    await stage.at_rest(workers=1)
    await stage.edit(
        "scaled", {"workerSets": {"more": {"replicas": 1, "template": template(WAIT)}}}
    )
    await stage.phase("scaled", "Running", workersReady="2/2")
    await stage.edit("scaled", {"workerSets": {"ws": None}})
    await stage.gone("StatefulSet", "scaled-workerset-ws")
    await stage.at_rest(workers=1)
    await stage.phase("scaled", "Running", workersReady="1/1")
    await stage.end(master, 0)
    await stage.phase("scaled", "Succeeded", restarts="0")
    await stage.at_rest()
