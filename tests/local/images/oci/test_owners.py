"""Layers with the owners of the image, for users without root that have subordinate IDs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from local.images.oci.packing import Layer, directory, entry, left_in, stored
from traincrew.local.images.oci import owners
from traincrew.local.images.oci.owners import owned_root
from traincrew.local.images.oci.running import environment_of
from traincrew.local.images.oci.store import ContainerImages
from traincrew.local.images.reference import parse_reference
from traincrew.local.node.sandbox import mapped
from traincrew.local.subordinate import IdMap

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.images import ImageRoot

NAME = "docker.io/me/train:7"
PLAIN = Layer(directory("usr/"), entry("usr/file", b"plain"))
HOME = Layer(
    directory("home/"),
    directory("home/me/", 0o700, uid=1000, gid=100),
    entry("home/me/key", b"key", mode=0o600, uid=1000, gid=100),
    entry("home/me/beyond", b"x", uid=70_000, gid=4),
    entry("sudo", b"sudo", mode=0o4755),
)
OVER = Layer(entry("home/me/new", b"new"))
"""It does not describe the directories of its entry."""
MAP = IdMap(((0, 1000, 1), (1, 100_000, 65_535)), ((0, 1000, 1), (1, 100_000, 65_535)), ("", ""))
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Do as root what only root of a user namespace could; return what was done."""
    made: list[str] = []

    def run(_: IdMap, command: str, arguments: dict[str, Any]) -> None:
        made.append(arguments["target"])
        assert command == "copy"
        mapped.copy(**arguments)

    monkeypatch.setattr(owners, "run_mapped", run)
    return made


@pytest.fixture
def images(tmp_path: Path) -> ContainerImages:
    return ContainerImages(tmp_path / "store", "single")


def root_of(images: ContainerImages, *layers: Layer) -> ImageRoot:
    image = stored(images, *layers, names=(NAME,))
    root = environment_of(parse_reference(NAME), image, images.place(image)).root
    assert root is not None
    return root


def owner(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid, found.st_mode & 0o7777


def test_only_layers_with_other_owners_are_made_again(
    images: ContainerImages, calls: list[str]
) -> None:
    single = root_of(images, PLAIN, HOME, OVER)
    assert owner(single.layers[1] / "home/me/key") == (0, 0, 0o600)
    assert owner(single.layers[1] / "sudo") == (0, 0, 0o755)

    root = owned_root(single, MAP)
    plain, home, over, directories = root.layers
    assert (plain, over) == (single.layers[0], single.layers[2])
    assert owner(home / "home/me") == (1000, 100, 0o700)
    assert owner(home / "home/me/key") == (1000, 100, 0o600)
    assert owner(home / "home/me/beyond") == (65534, 4, 0o644)
    assert owner(home / "sudo") == (0, 0, 0o4755)
    assert owner(directories / "home/me") == (1000, 100, 0o700)
    assert owner(directories / "home") == (0, 0, 0o755)
    assert len(calls) == 2
    assert owned_root(single, MAP) == root
    assert len(calls) == 2
    image = images.find(NAME)
    assert image is not None
    assert images.verify(image) == []
    assert left_in(images) == []


def test_another_map_has_other_trees_and_all_go_with_the_image(
    images: ContainerImages, calls: list[str]
) -> None:
    single = root_of(images, HOME)
    other = IdMap(MAP.uids[:1], MAP.gids[:1], MAP.programs)
    first, second = owned_root(single, MAP), owned_root(single, other)
    assert first.layers != second.layers
    assert owner(second.layers[0] / "home/me/key") == (0, 0, 0o600)
    image = images.find(NAME)
    assert image is not None
    images.remove(image)
    assert not any(path.exists() for path in (*first.layers, *second.layers))


def test_what_cannot_be_made_leaves_nothing(
    images: ContainerImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    single = root_of(images, HOME)

    def fail(_: IdMap, __: str, arguments: dict[str, Any]) -> None:
        mapped.copy(**arguments)
        raise OSError("disk full")

    monkeypatch.setattr(owners, "run_mapped", fail)
    with pytest.raises(OSError, match="disk full"):
        owned_root(single, MAP)
    assert left_in(images) == []
    assert list(images.directory.glob("layers/owned-*/*")) == []
