"""Failures outside of the job: of the operator, of a node."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from .context import uid
from .manifests import job
from .mxjobs import distributed, end, running
from .scenario import scenario

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .clusters import FragileNode
    from .context import ScenarioContext
    from .recording import Document

_HOST = "kubernetes.io/hostname"
ONE_MACHINE = (
    "Its nodes are one machine and one process, which are lost as a whole: suites/node kills that"
    " and starts it again. No controller handles nodes that do not respond."
)


@scenario(alone=True)
async def operator_killed(context: ScenarioContext) -> None:
    """The operator is killed while a job runs; the next one handles all changes once."""
    await context.create(job("orphan", workers=2))
    master = await context.master()
    await context.phase("orphan", "Running", workersReady="2/2")
    context.cluster.operator.kill()
    _, victim = await context.running("workerset", 2)
    await context.delete_pod(victim)
    await context.replaced(victim)
    context.cluster.operator.start()
    await context.phase("orphan", "Running", restarts="1")
    await context.end(master, 0)
    await context.phase("orphan", "Succeeded")
    await context.at_rest()


@scenario(alone=True, without={"embedded": ONE_MACHINE})
async def node_lost(context: ScenarioContext) -> None:
    """A node is lost with its pods, and tainted: all of them move, without using up a retry.

    Until it is tainted as out of service, its state is unknown: a second master must not run
    beside the first. An MxJob does not wait longer for a lost replica than that may take to end.
    """
    async with fragile_node(context) as node:
        await context.create(on_nodes(job("moves"), master={"prefer": node.name}))
        waits = job("waits", workers=1)
        await context.create(on_nodes(waits, master={"avoid": node.name}, ws={"prefer": node.name}))
        shards = distributed("shards", workers=1)
        places = {role: {"avoid": node.name} for role in ("scheduler", "server")}
        await context.create(on_nodes(shards, **places, worker={"prefer": node.name}))
        first = await context.master(of="moves")
        master = await context.master(of="waits")
        (worker,) = await context.running("workerset")
        await context.phase("moves", "Running")
        await context.phase("waits", "Running", workersReady="1/1")
        before = await running(context, "shards", 3)
        await context.phase("shards", "Running")
        lost = (first, worker, before["worker-0"])
        assert {pod["spec"]["nodeName"] for pod in lost} == {node.name}

        await asyncio.to_thread(node.lose)
        await context.phase("waits", "Restarting", reason="WorkersNotReady")
        await context.given_up(first)
        await context.given_up(worker)
        assert [uid(pod) for pod in context.pods("master", of="moves")] == [uid(first)]
        after = await running(context, "shards", 3, attempt="1")
        await context.phase("shards", "Running", restarts="1", lastRestartReason="Worker 0 failed")
        assert "failures" not in context.job("shards")["status"]
        assert after["worker-0"]["spec"]["nodeName"] != node.name
        await asyncio.to_thread(node.give_up)
        second = await context.master(after=first, of="moves")
        await context.phase("moves", "Running", restarts="1")
        await context.replaced(worker)
        await context.phase("waits", "Running", workersReady="1/1", restarts="1")
        await context.end(second, 0)
        await context.phase("moves", "Succeeded")
        await end(context, after)
        await context.phase("shards", "Done", state="Succeeded")
        await context.end(master, 0)
        await context.phase("waits", "Succeeded")
        await context.at_rest()


@asynccontextmanager
async def fragile_node(context: ScenarioContext) -> AsyncIterator[FragileNode]:
    """Yield a node that can be lost."""
    opened = context.cluster.fragile_node()
    node = await asyncio.to_thread(opened.__enter__)
    try:
        yield node
    finally:
        await asyncio.to_thread(opened.__exit__, None, None, None)


def on_nodes(document: Document, **places: dict[str, str]) -> Document:
    """Return a job whose pods `prefer` or `avoid` a node, or run on `only` one, by role or set.

    They are evicted three seconds after their node is lost, instead of Kubernetes' five minutes.
    """
    spec = document["spec"]
    parts = {"master": spec.get("master"), **spec.get("workerSets", {})}
    parts |= {part["mxReplicaType"].lower(): part for part in spec.get("replicaSpecs", ())}
    for name, place in places.items():
        pod = parts[name]["template"]["spec"]
        ((word, node),) = place.items()
        operator = "NotIn" if word == "avoid" else "In"
        term = {"matchExpressions": [{"key": _HOST, "operator": operator, "values": [node]}]}
        affinity = (
            {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 100, "preference": term}
                ]
            }
            if word == "prefer"
            else {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        )
        pod["affinity"] = {"nodeAffinity": affinity}
        pod["tolerations"] = [
            {
                "key": f"node.kubernetes.io/{state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 3,
            }
            for state in ("not-ready", "unreachable")
        ]
    return document
