"""Pods on machines that allow no namespaces."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from local.node.support import World, node_world, shell
from local.node.test_running import Streams, execute
from traincrew.engine.resources import CONFIG_MAPS, NODES, PODS
from traincrew.local.images import Environment
from traincrew.local.node.containers.bare import arrange
from traincrew.local.node.containers.mounts import VolumeMount
from traincrew.local.node.runtime.instances import Launch

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
                    f"cat {inside}/a; cat $TRAINCREW_MOUNT_C/a; echo; pwd",
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
    assert first == "11"
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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_link_of_another_user_is_not_trusted(tmp_path: Path) -> None:
    source, ours, theirs = tmp_path / "source", tmp_path / "ours", tmp_path / "theirs"
    source.mkdir()
    for link in (ours, theirs):
        link.symlink_to(source)
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    for link in (theirs, dangling):
        os.chown(link, 65534, 65534, follow_symlinks=False)
    launch = Launch(environment={})
    arranged = arrange(
        launch,
        [VolumeMount("v", source, str(link), read_only=False) for link in (ours, theirs, dangling)],
        Environment(name="e"),
        tmp_path,
        command=["cat", f"{ours}/a", f"{theirs}/a", f"{dangling}/a"],
    )
    assert arranged.launch.links == [str(ours)]
    assert arranged.command == ["cat", f"{ours}/a", f"{source}/a", f"{source}/a"]
    assert dangling.is_symlink()
