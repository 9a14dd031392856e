"""What breaks beside the job: the operator, a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .manifests import job
from .scenario import scenario

if TYPE_CHECKING:
    from .stage import Stage


@scenario(alone=True)
async def operator_killed(stage: Stage) -> None:
    """The operator dies while a job runs; what happens meanwhile is caught up with, once."""
    await stage.create(job("orphan", workers=2))
    master = await stage.master()
    await stage.phase("orphan", "Running", workersReady="2/2")
    stage.cluster.operator.kill()
    _, victim = await stage.running("workerset", 2)
    await stage.delete_pod(victim)
    await stage.replaced(victim)
    stage.cluster.operator.start()
    await stage.phase("orphan", "Running", restarts="1")
    await stage.end(master, 0)
    await stage.phase("orphan", "Succeeded")
    await stage.at_rest()
