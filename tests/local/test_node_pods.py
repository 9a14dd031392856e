"""Pods as processes, through the real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from local.node_support import World, condition, node_world, shell

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with node_world(tmp_path / "node") as world:
        yield world


async def test_runs_a_pod_to_success(world: World) -> None:
    text = await world.result("echo hello; hostname; cat /etc/hostname; echo oops >&2")
    assert text == "hello\np\np\noops\n"
    status = await world.status()
    state = status["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (0, "Completed")
    assert condition(status, "Ready") == "False"
