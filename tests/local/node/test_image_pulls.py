"""What a pod shows while its image cannot be pulled yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from local.node.support import World, node_world, shell
from traincrew.engine.errors import ApiError
from traincrew.engine.resources import SECRETS
from traincrew.local.node.containers import container as containers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from traincrew.engine.resources import Resource


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with node_world(tmp_path / "state") as world:
        yield world


async def test_secrets_that_cannot_be_read_are_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "_CONFIG_RETRY_SECONDS", 0.05)
    get, readable = world.client.get, False

    async def fails(resource: Resource, *names: str, **options: Any) -> Any:
        if resource is SECRETS and not readable:
            raise ApiError("etcdserver: request timed out", code=500)
        return await get(resource, *names, **options)

    monkeypatch.setattr(world.client, "get", fails)
    spec = {
        "containers": [shell("main", "exit 0")],
        "imagePullSecrets": [{"name": "login"}],
        "restartPolicy": "Never",
    }
    await world.pod(spec)
    found = await world.container(lambda status: "message" in status["state"].get("waiting", {}))
    assert found["state"]["waiting"]["reason"] == "ErrImagePull"
    says = "the Secrets that imagePullSecrets names cannot be read: "
    assert found["state"]["waiting"]["message"].startswith(says)
    assert "etcdserver: request timed out" in found["state"]["waiting"]["message"]
    event = await world.event("FailedToRetrieveImagePullSecret")
    assert (event["type"], event["message"]) == ("Warning", found["state"]["waiting"]["message"])
    readable = True
    await world.phase("Succeeded")
    event = await world.event("FailedToRetrieveImagePullSecret")
    assert event["count"] == 1
