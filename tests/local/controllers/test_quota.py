"""The status of quotas follows the objects, and workloads report that a quota refuses pods."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from local.controlplane import control_plane, template
from traincrew.engine.errors import ForbiddenError
from traincrew.engine.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    JOBS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    Resource,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from local.controlplane import World

Document = dict[str, Any]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with control_plane() as world:
        yield world


async def limit(world: World, hard: Document, **spec: Any) -> None:
    quota = {"metadata": {"name": "team"}, "spec": {"hard": hard, **spec}}
    await world.create(RESOURCE_QUOTAS, quota)


async def until_used(world: World, **used: str) -> None:
    await until_all_used(world, used)


async def until_all_used(world: World, used: Document) -> None:
    async def counted() -> bool:
        quota = await world.get(RESOURCE_QUOTAS, "team") or {}
        return bool(quota.get("status", {}).get("used") == used)

    await world.until(counted, f"used: {used}")


def pod(name: str, **spec: Any) -> Document:
    containers = [{"name": "main", "image": "busybox"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


async def test_the_usage_follows_the_objects(world: World) -> None:
    await world.create(PODS, pod("before"))
    await limit(world, {"pods": "3", "count/configmaps": "5"})
    # kube-root-ca.crt is in every namespace.
    await until_all_used(world, {"pods": "1", "count/configmaps": "1"})
    await world.create(PODS, pod("after"))
    await world.create(CONFIG_MAPS, {"metadata": {"name": "c"}})
    await until_all_used(world, {"pods": "2", "count/configmaps": "2"})

    (first, _) = await world.until_pods(2)
    await world.finish(first)
    await until_all_used(world, {"pods": "1", "count/configmaps": "2"})
    await world.client.delete(PODS, "before")
    await world.client.delete(CONFIG_MAPS, "c")
    await until_all_used(world, {"pods": "0", "count/configmaps": "1"})


async def test_a_changed_quota_is_recounted(world: World) -> None:
    await limit(world, {"pods": "0"})
    await until_used(world, pods="0")
    with pytest.raises(ForbiddenError, match="exceeded quota: team, requested: pods=1"):
        await world.create(PODS, pod("a"))
    change = {"spec": {"hard": {"pods": None, "count/pods": "1"}}}
    await world.client.patch(RESOURCE_QUOTAS, "team", "default", patch=change)
    await until_all_used(world, {"count/pods": "0"})
    await world.create(PODS, pod("a"))
    await until_all_used(world, {"count/pods": "1"})


async def test_custom_resources_are_counted(world: World) -> None:
    things = Resource("example.com", "v1", "things", "Thing")
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    await world.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    await world.until_condition(CUSTOM_RESOURCE_DEFINITIONS, "things.example.com", "Established")
    await limit(world, {"count/things.example.com": "1"})
    await until_all_used(world, {"count/things.example.com": "0"})
    await world.create(things, {"metadata": {"name": "a"}})
    with pytest.raises(ForbiddenError, match="exceeded quota: team"):
        await world.create(things, {"metadata": {"name": "b"}})
    await world.client.delete(things, "a", "default")
    await until_all_used(world, {"count/things.example.com": "0"})


async def test_the_count_is_right_under_concurrency(world: World) -> None:
    await limit(world, {"pods": "10"})
    await until_used(world, pods="0")

    async def come_and_go(number: int) -> None:
        for turn in range(4):
            try:
                await world.create(PODS, pod(f"p-{number}-{turn}"))
            except ForbiddenError:
                continue
            if (number + turn) % 2:
                await world.client.delete(PODS, f"p-{number}-{turn}", grace_period=0)
            assert len(await world.pods()) <= 10

    await asyncio.gather(*(come_and_go(number) for number in range(12)))
    await until_used(world, pods=str(len(await world.pods())))


REFUSED = "is forbidden: exceeded quota: team, requested: pods=1, used: pods=1, limited: pods=1"


async def test_workloads_report_that_a_quota_refuses_their_pods(world: World) -> None:
    await limit(world, {"pods": "1"})
    await until_used(world, pods="0")
    await world.create(PODS, pod("first"))
    selector = {"matchLabels": {"app": "a"}}
    spec = {"replicas": 1, "selector": selector, "template": template()}
    await world.create(REPLICA_SETS, {"metadata": {"name": "r"}, "spec": spec})
    await world.create(
        STATEFUL_SETS, {"metadata": {"name": "s"}, "spec": {**spec, "serviceName": "s"}}
    )
    await world.create(JOBS, {"metadata": {"name": "j"}, "spec": {"template": template("Never")}})

    for name, start in (
        ("r", 'Error creating: pods "r-'),
        ("s", 'Create Pod s-0 in StatefulSet s failed error: pods "s-0" '),
        ("j", 'Error creating: pods "j-'),
    ):

        async def reported(name: str = name, start: str = start) -> bool:
            return any(
                reason == "FailedCreate" and message.startswith(start) and REFUSED in message
                for reason, message in await world.events(name)
            )

        await world.until(reported, f"FailedCreate of {name}")
    failure = await world.until_condition(REPLICA_SETS, "r", "ReplicaFailure")
    assert failure["reason"] == "FailedCreate"
    assert REFUSED in failure["message"]

    await world.client.patch(
        RESOURCE_QUOTAS, "team", "default", patch={"spec": {"hard": {"pods": "4"}}}
    )
    await world.until_pods(4)
