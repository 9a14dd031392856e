"""Ports of Services that another program has taken."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from local.node.support import World, node_world
from traincrew.engine.resources import SERVICES
from traincrew.local.node.network import serviceproxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ADDRESS = "127.64.15.200"


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(serviceproxy, "_FIRST_RETRY_SECONDS", 0.05)
    async with node_world(tmp_path / "node") as world:
        yield world


async def test_a_service_is_served_once_its_port_is_free(world: World) -> None:
    with socket.create_server((ADDRESS, 0)) as other:
        port = other.getsockname()[1]
        spec = {"clusterIP": ADDRESS, "ports": [{"port": port}]}
        await world.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec})
        message = (await world.event("NotEmulated"))["message"]
        assert f"{ADDRESS}:{port} cannot be served on this machine: " in message
        assert "it is tried again until it can" in message
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection(ADDRESS, port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                break
