"""What breaks beside the job: the operator, a node."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from .manifests import job
from .scenario import scenario
from .stage import uid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .clusters import FragileNode
    from .recording import Document
    from .stage import Stage

_HOST = "kubernetes.io/hostname"
ONE_MACHINE = (
    "Its nodes are one machine and one process, which are lost as a whole: suites/node kills that"
    " and starts it again. No controller looks after nodes that are silent."
)


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


@scenario(alone=True, without={"embedded": ONE_MACHINE})
async def node_lost(stage: Stage) -> None:
    """A node is lost with its pods, and given up: all of them move, at no retry's cost.

    Until somebody says that the machine is off, nobody knows: a second master must not run beside
    the first.
    """
    async with fragile_node(stage) as node:
        await stage.create(on_nodes(job("moves"), master={"prefer": node.name}))
        waits = job("waits", workers=1)
        await stage.create(on_nodes(waits, master={"avoid": node.name}, ws={"prefer": node.name}))
        first = await stage.master(of="moves")
        master = await stage.master(of="waits")
        (worker,) = await stage.running("workerset")
        await stage.phase("moves", "Running")
        await stage.phase("waits", "Running", workersReady="1/1")
        assert first["spec"]["nodeName"] == worker["spec"]["nodeName"] == node.name

        await asyncio.to_thread(node.lose)
        await stage.phase("waits", "Restarting", reason="WorkersNotReady")
        await stage.given_up(first)
        await stage.given_up(worker)
        assert [uid(pod) for pod in stage.pods("master", of="moves")] == [uid(first)]
        await asyncio.to_thread(node.give_up)
        second = await stage.master(after=first, of="moves")
        await stage.phase("moves", "Running", restarts="1")
        await stage.replaced(worker)
        await stage.phase("waits", "Running", workersReady="1/1", restarts="1")
        await stage.end(second, 0)
        await stage.phase("moves", "Succeeded")
        await stage.end(master, 0)
        await stage.phase("waits", "Succeeded")
        await stage.at_rest()


@asynccontextmanager
async def fragile_node(stage: Stage) -> AsyncIterator[FragileNode]:
    """A node that can be lost."""
    opened = stage.cluster.fragile_node()
    node = await asyncio.to_thread(opened.__enter__)
    try:
        yield node
    finally:
        await asyncio.to_thread(opened.__exit__, None, None, None)


def on_nodes(document: Document, **places: dict[str, str]) -> Document:
    """A job whose pods, by role or set, `prefer`, `avoid` or may have `only` one node.

    They are given up three seconds after their node, instead of Kubernetes' five minutes.
    """
    spec = document["spec"]
    for name, place in places.items():
        template = spec["master" if name == "master" else "workerSets"]
        pod = (template if name == "master" else template[name])["template"]["spec"]
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
