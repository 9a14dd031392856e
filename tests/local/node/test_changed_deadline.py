"""A deadline that a pod gets while it runs: how an operator stops a pod whose log is to stay."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from local.node.support import World, node_world, shell
from traincrew.engine.errors import ApiError
from traincrew.engine.resources import PODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with node_world(tmp_path / "node") as world:
        yield world


async def set_deadline(world: World, seconds: int) -> None:
    deadline = {"spec": {"activeDeadlineSeconds": seconds}}
    await world.client.patch(PODS, "p", "default", patch=deadline)


async def has_logged(world: World, text: str) -> bool:
    return text in await world.logs()


async def test_a_running_pod_ends_and_keeps_its_log(world: World) -> None:
    await world.pod({"containers": [shell("main", "echo working; exec sleep 1000")]})
    await world.ready()
    await world.until(partial(has_logged, world, "working"))
    await set_deadline(world, 1)
    status = await world.phase("Failed")
    assert status["reason"] == "DeadlineExceeded"
    assert status["message"] == "Pod was active on the node longer than the specified deadline"
    assert (await world.logs()).splitlines() == ["working"]


async def test_a_pod_that_waits_for_its_restart_ends_with_the_last_exit_code(world: World) -> None:
    failing = {"restartPolicy": "OnFailure", "containers": [shell("main", "echo tried; exit 3")]}
    await world.pod(failing)

    def waits(container: dict[str, object]) -> bool:
        return container["restartCount"] == 1 and "waiting" in str(container["state"])

    await world.container(waits)
    await set_deadline(world, 1)
    status = await world.phase("Failed")
    assert status["reason"] == "DeadlineExceeded"
    (container,) = status["containerStatuses"]
    assert container["restartCount"] == 1
    ended = container["state"].get("terminated") or container["lastState"]["terminated"]
    assert ended["exitCode"] == 3
    assert (await world.logs()).splitlines() == ["tried"]


async def test_it_can_be_shortened_only(world: World) -> None:
    await world.pod("sleep 1000")
    await set_deadline(world, 500)
    await set_deadline(world, 400)
    with pytest.raises(ApiError, match="must be less than or equal to previous value"):
        await set_deadline(world, 500)
