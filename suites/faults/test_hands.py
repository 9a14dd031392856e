"""Somebody's hands are in every child of a job that runs: they delete it, or have its name.

What is deleted comes again, and the job runs on. What has the name of a child and is not the job's
is never taken over, changed or deleted; the job says that it is in the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from typing import TYPE_CHECKING, Any

import pytest
from suites.faults.lives_of_projects import JOB_SETS
from suites.faults.outcome import LIVES

from harness import PODS, Cluster
from traincrew.engine.errors import NotFoundError
from traincrew.engine.resources import JOBS, SECRETS, SERVICES, STATEFUL_SETS
from waiting import until_written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from suites.faults.life import Life

    from traincrew.engine.resources import Resource

    Object = dict[str, Any]
    Child = tuple[Resource, Object]

pytestmark = pytest.mark.usefixtures("impatient")


@contextlib.asynccontextmanager
async def nodes(cluster: Cluster) -> AsyncIterator[None]:
    """Every pod runs as soon as it is there."""

    async def run() -> None:
        while True:
            for pod in await cluster.all(PODS):
                if pod["status"]["phase"] == "Pending":
                    with contextlib.suppress(NotFoundError):
                        await cluster.run_pod(pod)
            await until_written(cluster.storage, at_most=1, interval=0.02)

    running = asyncio.create_task(run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def children(cluster: Cluster, life: Life) -> list[Child]:
    """Return the children of a job, and its pods."""
    return [
        (resource, child)
        for resource in (*life.children, PODS)
        for child in await cluster.all(resource)
        if life.owns(child)
    ]


async def start(cluster: Cluster, life: Life) -> list[Child]:
    """Create the job, wait until it runs, and return its children."""
    await cluster.create(life.manifest)
    await cluster.until_phase(life.name, "Running")
    return await children(cluster, life)


def once_per_kind() -> list[Any]:
    """Return lives whose jobs differ in their children."""
    found = {(life.manifest["kind"], life.children, life.label): life for life in LIVES}
    return [pytest.param(life, id=type(life).__name__) for life in found.values()]


async def until_again(cluster: Cluster, life: Life, resource: Resource, lost: Object) -> None:
    """Wait until there is another child in the place of one that was deleted."""

    async def check() -> bool:
        found = {
            each["metadata"]["name"]
            for each in await cluster.all(resource)
            if life.owns(each) and each["metadata"]["uid"] != lost["metadata"]["uid"]
        }
        # Pods of Jobs have names of chance.
        return lost["metadata"]["name"] in found or (resource is PODS and bool(found))

    await cluster.until(check)


@pytest.mark.parametrize("life", once_per_kind())
async def test_what_somebody_deletes_comes_again(life: Life) -> None:
    async with life.cluster() as cluster, nodes(cluster):
        await cluster.start_operator()
        lost = set()
        for resource, child in await start(cluster, life):
            if resource is SECRETS:  # they come again with the next pod, or what makes pods
                lost.add((resource.kind, child["metadata"]["name"]))
            try:
                await cluster.client.delete(resource, child["metadata"]["name"], "default")
            except NotFoundError:
                continue  # it went with another one
            if resource is not SECRETS:
                await until_again(cluster, life, resource, child)
            job = await cluster.until_phase(life.name, "Running")
            assert job["status"].get("failures", 0) == 0
        for resource, child in await children(cluster, life):
            lost.discard((resource.kind, child["metadata"]["name"]))
        assert not lost


@pytest.mark.parametrize("life", once_per_kind())
async def test_a_child_without_its_label_is_still_the_jobs(life: Life) -> None:
    async with life.cluster() as cluster, nodes(cluster):
        await cluster.start_operator()
        for resource, child in await start(cluster, life):
            if resource is SECRETS:
                continue  # they are not found by labels
            name, patch = child["metadata"]["name"], {"metadata": {"labels": {life.label: None}}}
            await cluster.client.patch(resource, name, "default", patch=patch)

            async def restored(
                resource: Resource = resource, before: Object = child["metadata"]
            ) -> bool:
                found = await cluster.find(resource, before["name"])
                return found is not None and found["metadata"].get("labels") == before["labels"]

            await cluster.until(restored)
            found = await cluster.find(resource, name)
            assert found is not None
            assert found["metadata"]["uid"] == child["metadata"]["uid"]
            await cluster.until_phase(life.name, "Running")


@pytest.mark.parametrize("life", once_per_kind())
async def test_a_name_in_use_is_said_and_left_alone(life: Life) -> None:
    async with life.cluster() as cluster:
        await cluster.start_operator()
        async with nodes(cluster):
            found = await start(cluster, life)
        uid = (await cluster.job(life.name))["metadata"]["uid"]
        await remove(cluster, life)
        for resource, child in found:
            (owner,) = child["metadata"]["ownerReferences"]
            if owner["uid"] != uid:
                continue  # that is its owner's business
            theirs = await take_name(cluster, resource, child)
            name = theirs["metadata"]["name"]
            async with nodes(cluster):
                await cluster.create(life.manifest)
                await until_said(cluster, life, name)
            await remove(cluster, life)
            left = await cluster.client.get(resource, name, "default")
            assert left["metadata"]["uid"] == theirs["metadata"]["uid"]
            assert left.get("spec") == theirs.get("spec")
            assert "ownerReferences" not in left["metadata"]
            await cluster.client.delete(resource, name, "default")


async def until_said(cluster: Cluster, life: Life, name: str) -> None:
    """Wait until the job says that somebody else has a name."""

    async def said() -> bool:
        message = (await cluster.job(life.name)).get("status", {}).get("message", "")
        assert name in message, message
        return "already exists" in message

    await cluster.until(said)


async def take_name(cluster: Cluster, resource: Resource, child: Object) -> Object:
    """Create an object of somebody else with the name of a child, and without pods."""
    theirs = {**copy.deepcopy(child), "metadata": {"name": child["metadata"]["name"]}}
    if resource is PODS:
        theirs["spec"] = {"containers": [{"name": "theirs", "image": "theirs"}]}
    if resource is SERVICES:
        theirs["spec"] = {"clusterIP": "None"}
    if resource is JOBS:
        theirs["spec"] = {"template": {"spec": theirs["spec"]["template"]["spec"]}}
    if resource is STATEFUL_SETS:
        theirs["spec"]["replicas"] = 0
    if resource is JOB_SETS:
        theirs["spec"]["managedBy"] = "example.com/theirs"
    return await cluster.client.create(resource, theirs, "default")


async def remove(cluster: Cluster, life: Life) -> None:
    """Delete the job, and wait until nothing is left of it."""
    await cluster.client.delete(cluster.kind_of(life.name), life.name, "default")

    async def gone() -> bool:
        return not await children(cluster, life) and (
            await cluster.find(cluster.kind_of(life.name), life.name) is None
        )

    await cluster.until(gone)
