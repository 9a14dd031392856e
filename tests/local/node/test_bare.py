"""Pods on machines that allow no namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from local.node.support import World, node_world, shell
from local.node.test_running import Streams, execute
from traincrew.engine.resources import CONFIG_MAPS, NODES, PODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with node_world(tmp_path / "node", sandbox="bare") as world:
        yield world


async def test_volumes_are_reached_by_links_or_variables(world: World, tmp_path: Path) -> None:
    await world.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    inside = tmp_path / "mount"
    text = await world.result(
        {
            "restartPolicy": "Never",
            "volumes": [{"name": "c", "configMap": {"name": "c"}}],
            "containers": [
                shell(
                    "main",
                    f"cat {inside}/a; cat $TRAINCREW_MOUNT_C/a; echo $KUBECONFIG; pwd",
                    volumeMounts=[
                        {"name": "c", "mountPath": str(inside)},
                        {"name": "c", "mountPath": "/proc/not/here"},
                    ],
                    workingDir="/proc/nowhere",
                )
            ],
        }
    )
    first, directory = text.splitlines()
    assert first.startswith("11/")
    assert directory.startswith(str(world.state))
    assert not inside.is_symlink()
    message = (await world.event("NotEmulated"))["message"]
    assert "/proc/not/here" in message
    assert "/proc/nowhere (workingDir)" in message
    node = await world.client.get(NODES, "local")
    assert node["metadata"]["annotations"]["traincrew.dev/sandbox"] == "bare"


async def test_commands_logs_and_deletion(world: World) -> None:
    await world.pod({"containers": [shell("main", "echo up; exec sleep 100")]})
    await world.ready()
    streams = Streams(b"in")
    assert await execute(world, streams, "sh", "-c", "cat; exit 2") == 2
    assert streams.out == b"in"
    assert await world.output() == "up\n"
    streams = Streams(b"tty\n", b"exit 6\n", tty=True, hold=True)
    assert await execute(world, streams, "sh") == 6
    assert b"/dev/pts/" in streams.out
    await world.client.delete(PODS, "p", "default")
    await world.gone()
