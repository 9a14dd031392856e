"""Objects that lose the labels by which we select them are found, and their labels restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness import CHAINER_JOBS, JOBS, PODS, STATEFUL_SETS, Cluster
from plan.chainerjob.world import distributed
from plan.elasticjob.world import elastic
from traincrew.engine.resources import (
    CONFIG_MAPS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
)

if TYPE_CHECKING:
    from traincrew.engine.resources import Resource

ELASTIC = "flowers"
CHAINER = "digits-mn"
ELASTIC_LABEL = "job-name"
CHAINER_LABEL = "chainerjob.kubeflow.org/name"


async def unlabel(cluster: Cluster, resource: Resource, name: str, label: str) -> None:
    """As `kubectl label NAME label-` does."""
    patch = {"metadata": {"labels": {label: None}}}
    await cluster.client.patch(resource, name, "default", patch=patch)


async def until_labelled(
    cluster: Cluster, resource: Resource, name: str, label: str
) -> dict[str, Any]:
    """Wait until an object has a label."""

    async def labelled() -> Any:
        found = await cluster.find(resource, name)
        return found if found and label in found["metadata"].get("labels", {}) else None

    found: dict[str, Any] = await cluster.until(labelled)
    return found


async def created(cluster: Cluster) -> list[str]:
    """Messages of the events that tell of creations."""
    events = await cluster.events_of(ELASTIC)
    return sorted(message for _, reason, message in events if "Create" in reason)


async def running_elastic(cluster: Cluster) -> dict[str, str]:
    """An ElasticJob that runs; UIDs of its pods by name."""
    await cluster.start_operator()
    await cluster.create(elastic())
    pods = await cluster.run_members(ELASTIC, 2)
    await cluster.until_phase(ELASTIC, "Running", workersReady="2/2")
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("resource", [PODS, SERVICES])
async def test_children_of_an_elastic_job(
    cluster: Cluster, resource: Resource, restarted: bool
) -> None:
    uids = await running_elastic(cluster)
    if restarted:
        await cluster.stop_operator()
    await unlabel(cluster, resource, f"{ELASTIC}-worker-1", ELASTIC_LABEL)
    if restarted:
        await cluster.start_operator()
    await until_labelled(cluster, resource, f"{ELASTIC}-worker-1", ELASTIC_LABEL)

    job = await cluster.until_phase(ELASTIC, "Running", workersReady="2/2")
    assert job["status"]["restarts"] == 0
    pods = await cluster.members(ELASTIC)
    assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods} == uids

    async def told() -> bool:
        return len(await created(cluster)) >= 2

    await cluster.until(told)
    # One event for the pods and one for the Services; none for those that existed.
    assert len(await created(cluster)) == 2


CHILDREN = (
    (SERVICE_ACCOUNTS, f"{CHAINER}-launcher"),
    (ROLES, f"{CHAINER}-launcher-role"),
    (ROLE_BINDINGS, f"{CHAINER}-launcher-rolebinding"),
    (CONFIG_MAPS, f"{CHAINER}-assets"),
    (STATEFUL_SETS, f"{CHAINER}-workerset-ws0"),
    (JOBS, f"{CHAINER}-master"),
)


@pytest.mark.parametrize("restarted", [False, True])
async def test_children_of_a_chainer_job(cluster: Cluster, restarted: bool) -> None:
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.run_workers(2)
    await cluster.run_master()
    await cluster.until_phase(CHAINER, "Running", workersReady="2/2")
    uids = {
        name: (await cluster.client.get(resource, name, "default"))["metadata"]["uid"]
        for resource, name in CHILDREN
    }
    if restarted:
        await cluster.stop_operator()
    for resource, name in CHILDREN:
        await unlabel(cluster, resource, name, CHAINER_LABEL)
    if restarted:
        await cluster.start_operator()
    for resource, name in CHILDREN:
        found = await until_labelled(cluster, resource, name, CHAINER_LABEL)
        assert found["metadata"]["uid"] == uids[name]
    job = await cluster.until_phase(CHAINER, "Running", workersReady="2/2")
    assert job["status"]["restarts"] == 0


async def test_the_master_pod_of_a_chainer_job(cluster: Cluster) -> None:
    await cluster.start_operator()
    await cluster.create(distributed())
    await cluster.run_workers(2)
    pod = await cluster.run_master()
    await cluster.until_phase(CHAINER, "Running")
    await unlabel(cluster, PODS, pod["metadata"]["name"], CHAINER_LABEL)
    await until_labelled(cluster, PODS, pod["metadata"]["name"], CHAINER_LABEL)
    job = await cluster.until_phase(CHAINER, "Running", workersReady="2/2")

    assert job["status"]["restarts"] == 0
    assert await cluster.find(CHAINER_JOBS, CHAINER) is not None
