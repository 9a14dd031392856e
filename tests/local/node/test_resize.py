"""A running pod gets other resources: at once, by a restart, or not at all."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from local.node.support import (
    CAPABILITIES,
    World,
    control_plane,
    needs_own_proc,
    node_world,
    running_node,
    shell,
)
from traincrew.engine.resources import PODS
from traincrew.local.node.containers.restarts import restarts_for
from traincrew.local.node.pods.resizing import resize_fault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

Document = dict[str, Any]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with node_world(tmp_path / "node") as world:
        yield world


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ({"cpu": "2", "memory": "1Gi"}, None),
        ({"cpu": "2001m"}, "cpu, requested: 2001, capacity: 2000"),
        ({"cpu": "9", "memory": "2Gi"}, f"memory, requested: {2 << 30}, capacity: {1 << 30}"),
    ],
)
def test_what_a_node_is_too_small_for(requests: Document, message: str | None) -> None:
    spec = {"containers": [{"name": "a", "resources": {"requests": requests}}]}
    fault = resize_fault(spec, {"cpu": "2", "memory": "1Gi"})
    if message is None:
        assert fault is None
    else:
        assert fault == ("Infeasible", f"Node didn't have enough capacity: {message}")


@pytest.mark.parametrize(
    ("policy", "restarts"), [("RestartContainer", True), ("NotRequired", False)]
)
def test_when_a_container_is_restarted(policy: str, restarts: bool) -> None:
    container = {
        "resizePolicy": [{"resourceName": "memory", "restartPolicy": policy}],
        "resources": {"limits": {"memory": "2Gi"}, "requests": {"cpu": "2"}},
    }
    before = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1"}}
    assert restarts_for(container, before) == restarts
    assert not restarts_for(container, {**before, "limits": {"memory": "2Gi"}})


async def resize(world: World, **resources: Document) -> None:
    patch = [
        {"op": "add", "path": f"/spec/containers/0/resources/{kind}/{name}", "value": amount}
        for kind, amounts in resources.items()
        for name, amount in amounts.items()
    ]
    await world.client.patch(PODS, "p", "default", patch=patch, kind="json", subresource="resize")


def pending(status: Document) -> Document:
    found = [each for each in status["conditions"] if each["type"] == "PodResizePending"]
    return found[0] if found else {}


async def status_with(world: World, memory: str, reason: str = "") -> bool:
    pod = await world.client.get(PODS, "p", "default")
    status = pod["status"]
    (container,) = status["containerStatuses"]
    if "resources" not in container:  # before a node knows the containers of an earlier one
        return False
    return bool(
        container["resources"]["limits"]["memory"] == memory
        and container["allocatedResources"]["memory"] == memory
        and status["observedGeneration"] == pod["metadata"]["generation"]
        and pending(status).get("reason", "") == reason
    )


def limited(memory: str, script: str = "exec sleep 1000", **more: Any) -> Document:
    resources = {"limits": {"memory": memory}, "requests": {"cpu": "100m"}}
    return {"containers": [shell("main", script, resources=resources, **more)]}


async def test_a_resize_holds_at_once_and_is_reported(world: World) -> None:
    await world.pod(limited("64Mi"))
    await world.ready()
    await resize(world, limits={"memory": "96Mi"}, requests={"memory": "96Mi"})
    await world.until(partial(status_with, world, "96Mi"))
    await world.event("ResizeCompleted")
    pod = await world.client.get(PODS, "p", "default")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_what_the_node_does_not_have_stays_pending(world: World) -> None:
    await world.pod(limited("64Mi"))
    await world.ready()
    await resize(world, limits={"memory": "9000Ti"}, requests={"memory": "9000Ti"})
    await world.until(partial(status_with, world, "64Mi", "Infeasible"))
    event = await world.event("ResizeInfeasible")
    assert "Node didn't have enough capacity: memory, requested: " in event["message"]
    await resize(world, limits={"memory": "96Mi"}, requests={"memory": "96Mi"})
    await world.until(partial(status_with, world, "96Mi"))


async def test_another_node_keeps_what_a_pod_has(tmp_path: Path) -> None:
    async with control_plane(tmp_path / "node") as world:
        async with running_node(world, kill=False):
            await world.pod(limited("64Mi"))
            await world.ready()
            await resize(world, limits={"memory": "9000Ti"}, requests={"memory": "9000Ti"})
            await world.until(partial(status_with, world, "64Mi", "Infeasible"))
        # The wish changes while no node is there, at first to one that cannot be met either.
        await resize(world, limits={"memory": "8000Ti"}, requests={"memory": "8000Ti"})
        async with running_node(world, kill=False):
            await world.until(partial(status_with, world, "64Mi", "Infeasible"))
        await resize(world, limits={"memory": "96Mi"}, requests={"memory": "96Mi"})
        async with running_node(world):
            await world.until(partial(status_with, world, "96Mi"))
            pod = await world.client.get(PODS, "p", "default")
            assert pod["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_a_container_that_wants_it_is_restarted(world: World) -> None:
    script = "trap 'exit 0' TERM; echo started; while :; do sleep 0.1; done"
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    await world.pod(limited("64Mi", script, resizePolicy=policy) | {"restartPolicy": "OnFailure"})
    await world.ready()
    await resize(world, limits={"memory": "96Mi"}, requests={"memory": "96Mi"})

    def restarted(container: Document) -> bool:
        return bool(container["restartCount"] == 1 and "running" in container["state"])

    await world.container(restarted)
    event = await world.event("Killing")
    assert event["message"] == "Container main resize requires restart"


@pytest.mark.skipif(not CAPABILITIES.namespaces, reason=CAPABILITIES.reason)
@needs_own_proc
async def test_the_new_memory_limit_is_the_one_that_is_measured(world: World) -> None:
    hold = "import time; x = bytearray(150 << 20); print('full', flush=True); time.sleep(600)"
    script = f"exec '{sys.executable}' -c \"{hold}\""
    await world.pod(limited("400Mi", script) | {"restartPolicy": "Never"})
    await world.ready()

    async def full() -> bool:
        return "full" in await world.logs()

    await world.until(full)
    await resize(world, limits={"memory": "100Mi"}, requests={"memory": "100Mi"})
    status = await world.phase("Failed")
    assert status["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled"
    assert "its limit is 100Mi" in (await world.event("OOMKilling"))["message"]
