"""Volumes that are container images."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from local.node.machine_image import image_of, machine_layer
from local.node.support import CAPABILITIES, World, node_world, shell
from traincrew.engine.resources import EVENTS
from traincrew.local.filelocks import try_lock
from traincrew.local.images import Environment, ImageRoot
from traincrew.local.images.sources import Source

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    not (CAPABILITIES.namespaces and CAPABILITIES.overlay), reason="no overlays here"
)


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return machine_layer(tmp_path_factory.mktemp("layers") / "machine")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with node_world(tmp_path / "node") as world:
        world.images.named["me/data:1"] = data(tmp_path / "data")
        yield world


def data(directory: Path) -> Environment:
    """Return an image of two layers: files, a directory, links, a program."""
    lower, upper = directory / "lower", directory / "upper"
    for place in (lower, upper):
        (place / "set").mkdir(parents=True)
    (lower / "README").write_text("of the lower layer\n")
    (upper / "README").write_text("of the upper layer\n")
    (lower / "set/one").write_text("1\n")
    (upper / "set/two").write_text("2\n")
    (lower / "latest").symlink_to("/set")
    (lower / "outside").symlink_to("../../../../../../etc")
    (lower / "tool").write_text("#!/bin/sh\necho ran\n")
    (lower / "tool").chmod(0o755)
    root = ImageRoot(id="sha256:1", layers=(lower, upper), size=100, place=directory)
    return Environment("me/data:1", root=root)


def pod(script: str, *mounts: dict[str, str], **image: str) -> dict[str, Any]:
    """Return a pod with the image as the volume `data`."""
    source = {"reference": "me/data:1", **image}
    listed = [{"name": "data", **mount} for mount in mounts]
    return {
        "containers": [shell("main", script, volumeMounts=listed)],
        "volumes": [{"name": "data", "image": source}],
        "restartPolicy": "Never",
    }


@pytest.mark.parametrize("root", ["environment", "image"])
async def test_an_image_is_shown_read_only(
    world: World, layer: Path, tmp_path: Path, root: str
) -> None:
    if root == "image":
        world.images.environment = image_of(layer)
    script = (
        "cd /models; export LC_ALL=C; cat README; ls . set;"
        " ./tool 2>/dev/null || echo no program; touch new 2>/dev/null || echo no file;"
        " rm README 2>/dev/null || echo kept"
    )
    assert await world.result(pod(script, {"mountPath": "/models"})) == (
        "of the upper layer\n.:\nREADME\nlatest\noutside\nset\ntool\n\nset:\none\ntwo\n"
        "no program\nno file\nkept\n"
    )
    assert sorted(path.name for path in (tmp_path / "data/lower").iterdir()) == [
        "README", "latest", "outside", "set", "tool",
    ]  # fmt: skip


async def test_parts_of_an_image(world: World) -> None:
    script = "ls /a /b; cat /c/README"
    mounts = (
        {"mountPath": "/a", "subPath": "set"},
        {"mountPath": "/b", "subPath": "latest"},
        {"mountPath": "/c/README", "subPath": "README"},
    )
    assert await world.result(pod(script, *mounts)) == (
        "/a:\none\ntwo\n\n/b:\none\ntwo\nof the upper layer\n"
    )


@pytest.mark.parametrize("path", ["none", "set/none", "outside/passwd", "README/none"])
async def test_a_part_that_the_image_does_not_have(world: World, path: str) -> None:
    await world.pod(pod("true", {"mountPath": "/a", "subPath": path}))
    found = await world.container(lambda status: "message" in status["state"].get("waiting", {}))
    waiting = found["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert waiting["message"] == f"subPath '{path}' does not exist in the image"


async def test_it_is_pulled_as_the_image_of_a_container_is(world: World) -> None:
    world.images.environment = Environment("host")
    await world.result(pod("true", {"mountPath": "/a"}, pullPolicy="Always"))
    volume, container = world.images.requests
    assert (volume.source, volume.always) == (Source.IMAGE, True)
    assert (container.source, container.always) == (None, False)
    events = (await world.client.list(EVENTS, "default"))["items"]
    pulled = [each["message"] for each in events if each["reason"] == "Pulled"]
    assert [text.partition(" in ")[0] for text in pulled] == [
        'Successfully pulled image "me/data:1"',
        'Successfully pulled image "any:1"',
    ]


async def test_an_image_that_cannot_be_pulled(world: World) -> None:
    await world.pod(pod("true", {"mountPath": "/a"}, reference="unknown/data:1"))
    found = await world.container(lambda status: "message" in status["state"].get("waiting", {}))
    assert found["state"]["waiting"] == {
        "reason": "ErrImagePull",
        "message": "no environment is defined for unknown/data:1",
    }
    message = (await world.event("Failed"))["message"]
    assert message.startswith('Failed to pull image "unknown/data:1"')


async def test_one_that_no_container_mounts_is_not_pulled(world: World) -> None:
    await world.result(pod("true"))
    assert world.images.pulled == ["any:1"]


async def test_it_is_not_removed_while_a_container_runs(world: World, tmp_path: Path) -> None:
    await world.pod(pod("echo started; exec sleep 600", {"mountPath": "/a"}))
    await world.phase("Running")
    place = os.open(tmp_path / "data", os.O_RDONLY)
    try:
        assert not try_lock(place)
    finally:
        os.close(place)
