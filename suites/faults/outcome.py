"""How a life cycle ends, without what differs between any two runs of it."""

from __future__ import annotations

import json
import re
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from suites.faults.lives import LIVES as OWN
from suites.faults.lives_by_definition import LIVES as BY_DEFINITION
from suites.faults.lives_of_projects import JOB_SETS
from suites.faults.lives_of_projects import LIVES as OF_PROJECTS

from harness import OPERATOR_AGENT, PODS, Cluster
from traincrew.engine.resources import SECRETS, STATEFUL_SETS

if TYPE_CHECKING:
    from suites.faults.life import Life

    from traincrew.local.apiserver.http.faults import Fault

LIVES = (*OWN, *OF_PROJECTS, *BY_DEFINITION)
_LAST = {"Succeeded", "Complete", "Completed", "Failed"}
_RANDOM = re.compile(r"(?:(?<=-[0-9]-)|(?<=-launcher-))[a-z0-9]{5}(?=[: ])")


async def live(cluster: Cluster, life: Life) -> None:
    """Create the job and run its life cycle."""
    await cluster.create(life.manifest)
    await life.live(cluster)


async def result(cluster: Cluster, life: Life) -> dict[str, Any]:
    """Return the final state, without what differs between any two runs."""

    async def complete() -> Any:
        # With a definition that stores less, the phase is written before the conditions.
        found = await cluster.job(life.name)
        holding = {
            each["type"] for each in found["status"]["conditions"] if each["status"] == "True"
        }
        return found if holding & _LAST else None

    job = await cluster.until(complete)
    # Pods of Jobs have names of chance.
    status = json.loads(_RANDOM.sub("<random>", json.dumps(job["status"])))
    for name in ("startTime", "completionTime"):
        assert status.pop(name)
    for name in ("lastScaleInTime", "lastRestartTime"):
        if name in status:
            status[name] = "<time>"
    if reason := status.get("lastRestartReason"):  # pods of a Job have names of chance
        status["lastRestartReason"] = re.sub(r"(pod [a-z0-9-]+)-[a-z0-9]{5}:", r"\1:", reason)
    status.pop("podRecords", None)  # they go when the end is stored
    # A restart that began and ended while no operator ran is counted, but was never a condition.
    status["conditions"] = [
        condition for condition in status["conditions"] if condition["type"] != "Restarting"
    ]
    # Of the others it depends on what was seen when; the last one is the job's state.
    *others, last = status["conditions"]
    status["conditions"] = [*sorted(others, key=itemgetter("type")), last]
    for condition in status["conditions"]:
        for name in ("lastTransitionTime", "lastProbeTime", "lastUpdateTime"):
            condition.pop(name, None)
    children = {}
    for resource in life.children:
        for child in await cluster.all(resource):
            if not life.owns(child):
                continue
            key = f"{resource.kind} {child['metadata']['name']}"
            assert key not in children
            kept = {name: child.get(name) for name in ("rules", "data", "subjects", "roleRef")}
            if resource in {STATEFUL_SETS, JOB_SETS}:
                kept["spec"] = child["spec"]
            if resource is SECRETS:  # with keys of chance
                kept["data"] = sorted(child["data"])
            children[key] = kept
    pods = {pod["metadata"]["name"].rpartition("-")[0] for pod in await cluster.all(PODS)}
    return {"spec": job["spec"], "status": status, "children": children, "pods": pods}


def is_write(method: str, path: str, agent: str) -> bool:
    """Return whether a request is one of the operator's writes; events do not count."""
    return (
        method != "GET"
        and agent.startswith(OPERATOR_AGENT)
        and "/events" not in path
        and "/leases" not in path
    )


async def count_writes(life: Life) -> tuple[int, dict[str, Any]]:
    """Run a life cycle without crashes; return the number of writes and the final state."""
    writes = 0
    async with life.cluster() as cluster:

        def count(method: str, path: str, agent: str) -> Fault | None:
            nonlocal writes
            writes += is_write(method, path, agent)
            return None

        cluster.server.faults = count
        await cluster.start_operator()
        await live(cluster, life)
        return writes, await result(cluster, life)
