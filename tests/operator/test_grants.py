"""Jobs that want pods of the same names do not get rights in each other's pods."""

from __future__ import annotations

import copy
from typing import Any

from harness import CHAINER_JOBS, ELASTIC_JOBS, MPI_CLUSTERS, PODS, Cluster
from plan.chainerjob.world import distributed
from plan.elasticjob.world import elastic
from plan.mpicluster.manifests import without_ssh
from traincrew.engine.resources import JOBS, ROLES, STATEFUL_SETS

SHARED = "a-workerset-workerset-y"
"""The StatefulSet of set `y` of job `a-workerset`, and of set `workerset-y` of job `a`."""


async def granted(cluster: Cluster, role: str) -> list[str]:
    """Return every name in the rules of a Role."""
    rules = (await cluster.client.get(ROLES, role, "default")).get("rules") or []
    assert all(rule["resourceNames"] for rule in rules)
    return [name for rule in rules for name in rule["resourceNames"]]


def job(name: str, worker_set: str) -> dict[str, Any]:
    """Return a ChainerJob with one set of two workers."""
    manifest = copy.deepcopy(distributed())
    manifest["metadata"]["name"] = name
    manifest["spec"]["workerSets"] = {worker_set: manifest["spec"]["workerSets"]["ws0"]}
    return manifest


async def test_a_job_gets_no_rights_in_the_workers_of_a_job_with_a_similar_name(
    cluster: Cluster,
) -> None:
    await cluster.start_operator()
    await cluster.create(job("a-workerset", "y"))
    await cluster.run_workers(2)
    master = await cluster.run_master()
    await cluster.until_phase("a-workerset", "Running")
    victims = [SHARED, f"{SHARED}-0", f"{SHARED}-1"]
    assert sorted(set(await granted(cluster, "a-workerset-launcher-role"))) == victims

    await cluster.create(job("a", "workerset-y"))
    await cluster.until_phase("a", "Created", reason="ErrResourceExists", message=SHARED)
    assert await granted(cluster, "a-launcher-role") == []
    assert await cluster.find(JOBS, "a-master") is None

    # Another operator, which knows nothing of what was refused.
    await cluster.kill_operator()
    await cluster.start_operator()
    await cluster.end_pod(master, 0)
    await cluster.until_phase("a-workerset", "Succeeded")
    assert await granted(cluster, "a-launcher-role") == []
    assert await granted(cluster, "a-workerset-launcher-role") == []

    # When the name is free, its pods are those of the other job.
    await cluster.client.delete(CHAINER_JOBS, "a-workerset", "default")

    async def free() -> bool:
        return await cluster.find(STATEFUL_SETS, SHARED) is None

    await cluster.until(free)
    await cluster.edit("a", {"runPolicy": {"backoffLimit": 3}})
    await cluster.run_workers(2)
    await cluster.run_master_of("a")
    assert sorted(set(await granted(cluster, "a-launcher-role"))) == victims


async def test_a_cluster_gets_no_rights_in_the_worker_of_an_elastic_job(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(elastic(1))  # its pod is flowers-worker-0
    await cluster.run_members("flowers", 1)
    await cluster.until_phase("flowers", "Running")

    await cluster.create(without_ssh("flowers", workers=1))
    assert cluster.kind_of("flowers") == MPI_CLUSTERS
    await cluster.until_phase("flowers", "Created", message="0/1 workers ready")

    async def has_set() -> Any:
        found = await cluster.find(STATEFUL_SETS, "flowers-worker")
        role = await cluster.find(ROLES, "flowers-master")
        return found and role

    await cluster.until(has_set)
    assert await granted(cluster, "flowers-master") == []
    await cluster.kill_operator()
    await cluster.start_operator()
    await cluster.client.patch(MPI_CLUSTERS, "flowers", "default", patch={"spec": {"slots": 2}})

    async def observed() -> bool:
        found = await cluster.job("flowers")
        return bool(found["status"]["observedGeneration"] == found["metadata"]["generation"])

    await cluster.until(observed)
    assert await granted(cluster, "flowers-master") == []
    assert await cluster.find(PODS, "flowers-master") is None

    await cluster.client.delete(ELASTIC_JOBS, "flowers", "default")
    await cluster.run_hosts("flowers", "worker-0")
    await cluster.run_hosts("flowers", "master")
    assert set(await granted(cluster, "flowers-master")) == {"flowers-worker-0"}
