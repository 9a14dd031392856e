"""What an image name stands for, and pulls of container images for pods."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, get_args

import pytest
from aiohttp import web
from msgspec.structs import replace

from local.images.oci.registry.support import Registry, Store, serving
from traincrew.local.images import ImagePullError, ImageStore, PullRequest, Source
from traincrew.local.images.oci.model import ImageConfig, StoredImage
from traincrew.local.images.oci.registry.failures import Kind, RegistryError
from traincrew.local.images.pulls import ContainerPulls, StaleNotice
from traincrew.local.images.reference import parse_reference
from traincrew.local.images.sources import Choice, choose, may_use_stored

if TYPE_CHECKING:
    from pathlib import Path

AUTO, ENVIRONMENT, IMAGE = Source.AUTO, Source.ENVIRONMENT, Source.IMAGE
NAME = "localhost:1/me/train:7"
"""An image of a registry that nobody serves."""


@pytest.mark.parametrize(
    ("source", "own", "stored", "shipped", "choice"),
    [
        (AUTO, True, True, False, Choice.ENVIRONMENT),
        (AUTO, False, True, True, Choice.STORED),
        (AUTO, False, True, False, Choice.STORED),
        (AUTO, False, False, True, Choice.ENVIRONMENT),
        (AUTO, False, False, False, Choice.REGISTRY),
        (ENVIRONMENT, True, True, False, Choice.ENVIRONMENT),
        (ENVIRONMENT, False, True, True, Choice.ENVIRONMENT),
        (ENVIRONMENT, False, True, False, None),
        (IMAGE, True, True, False, Choice.STORED),
        (IMAGE, True, False, True, Choice.REGISTRY),
    ],
)
def test_what_a_name_stands_for(
    source: Source, own: bool, stored: bool, shipped: bool, choice: Choice | None
) -> None:
    assert choose(source, own=own, stored=stored, shipped=shipped) is choice


def stored_image(digest: str = "") -> StoredImage:
    config = ImageConfig(
        diff_ids=(), entrypoint=("/train",), arguments=("--fast",), variables={"A": "1"}, user="7:8"
    )
    return StoredImage(
        id="sha256:" + "1" * 64, digest=digest, names=(NAME,), config=config, layers=(), size=3,
        created="2026-11-27T00:00:00Z",
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(tmp_path / "store")
    found.images[str(parse_reference(NAME))] = stored_image()
    return found


async def test_a_stored_image_needs_no_registry(store: Store) -> None:
    pulls = ContainerPulls(store)
    lines: list[str] = []
    found = await pulls.pull(NAME, parse_reference(NAME), PullRequest(always=True), lines.append)
    assert lines == []
    assert (found.command, found.arguments) == (["/train"], ["--fast"])
    assert found.variables == {"A": "1"}
    assert found.root is not None
    assert (found.root.user, found.image_id) == ("7:8", "sha256:" + "1" * 64)


async def test_a_registry_that_does_not_answer_leaves_what_is_stored(store: Store) -> None:
    digest = "sha256:" + "2" * 64
    store.images[str(parse_reference(NAME))] = stored_image(digest)
    lines: list[str] = []
    pulls = ContainerPulls(store)
    found = await pulls.pull(NAME, parse_reference(NAME), PullRequest(always=True), lines.append)
    assert found.image_id == f"localhost:1/me/train@{digest}"
    (notice,) = lines
    assert isinstance(notice, StaleNotice)
    assert "cannot reach http://localhost:1" in notice


@pytest.mark.parametrize(
    ("unanswered", "imported", "used"),
    [(True, False, True), (True, True, True), (False, True, True), (False, False, False)],
)
def test_when_a_stored_image_may_stand_in(unanswered: bool, imported: bool, used: bool) -> None:
    assert may_use_stored(unanswered=unanswered, imported=imported) is used


def test_what_of_a_registry_is_no_answer() -> None:
    kinds: tuple[Kind, ...] = get_args(Kind)
    assert {kind for kind in kinds if not RegistryError(kind, "").is_unanswered} == {
        "unauthorized", "denied", "missing", "platform",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("status", "says"),
    [(401, "401 Unauthorized"), (403, "403 Forbidden"), (404, "There is no such image or tag")],
)
async def test_a_registry_that_refuses_is_right_about_what_was_pulled(
    store: Store, status: int, says: str
) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=status)

    registry = Registry()
    async with serving(registry):
        registry.hook = refuse
        name = f"{registry.host}/me/train:7"
        pulls, always = ContainerPulls(store), PullRequest(always=True)
        pulled = replace(stored_image("sha256:" + "2" * 64), names=(name,))
        store.images[name] = pulled
        with pytest.raises(ImagePullError, match=says) as caught:
            await pulls.pull(name, parse_reference(name), always, lambda _: None)
        assert caught.value.reason == "ErrImagePull"

        # An image that was imported need not be in the registry that its name has.
        store.images[name] = replace(pulled, imported=True)
        lines: list[str] = []
        await pulls.pull(name, parse_reference(name), always, lines.append)
    (notice,) = lines
    assert isinstance(notice, StaleNotice)
    assert notice.startswith("the stored image is used: failed to pull image ")
    assert says in notice


async def test_a_start_looks_for_its_image_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(tmp_path, NAME)
    store = ImageStore(tmp_path)
    asked: list[str] = []
    find = store.containers.find

    def counted(name: str) -> StoredImage | None:
        asked.append(name)
        return find(name)

    monkeypatch.setattr(store.containers, "find", counted)
    found = store.look(NAME)
    assert (found.meaning, found.is_present) == (Choice.STORED, True)
    assert (await store.pull(NAME, lambda _: None, PullRequest(), found)).root is not None
    assert asked == [NAME]


async def test_what_another_pod_has_pulled_meanwhile_is_used(store: Store) -> None:
    reference = parse_reference(NAME)
    image = store.images.pop(str(reference))
    pulls = ContainerPulls(store)
    fetched = 0

    async def fetch(*_: object) -> StoredImage:
        nonlocal fetched
        fetched += 1
        await asyncio.sleep(0)
        store.images[str(reference)] = image
        return image

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pulls, "_fetch", fetch)
        starts = [pulls.pull(NAME, reference, PullRequest(), lambda _: None) for _ in range(5)]
        found = await asyncio.gather(*starts)
    assert fetched == 1
    assert {each.image_id for each in found} == {image.id}


async def test_an_image_that_is_removed_meanwhile_is_pulled_again(
    store: Store, tmp_path: Path
) -> None:
    gone = replace(stored_image(), layers=(tmp_path / "gone",))
    with pytest.raises(ImagePullError, match="it was removed meanwhile") as caught:
        await ContainerPulls(store).pull(
            NAME, parse_reference(NAME), PullRequest(), lambda _: None, gone
        )
    assert not caught.value.permanent


def test_an_image_of_a_registry_may_be_pulled_later(tmp_path: Path) -> None:
    store = ImageStore(tmp_path)
    assert not store.is_present(NAME)
    store.check(NAME)
    with pytest.raises(ImagePullError, match="no environment is defined for it; define one: "):
        store.check(NAME, ENVIRONMENT)


async def test_without_image_and_environment_the_message_has_both(tmp_path: Path) -> None:
    with pytest.raises(ImagePullError) as caught:
        await ImageStore(tmp_path).pull(NAME, lambda _: None)
    message = caught.value.message
    assert "no environment is defined for it, and failed to pull image" in message
    assert "cannot reach http://localhost:1" in message
    assert message.endswith(
        f"; define one: traincrew images map {NAME} --python 3.11 --requirements requirements.txt"
    )
    with pytest.raises(ImagePullError) as caught:
        await ImageStore(tmp_path, source=IMAGE).pull(NAME, lambda _: None)
    assert "environment" not in caught.value.message


def imported(cache: Path, name: str) -> None:
    """Store an image without layers."""
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}
    store = ImageStore(cache)
    config["architecture"] = store.containers.platform.architecture
    store.containers.add_image([str(parse_reference(name))], b"", json.dumps(config).encode(), "")


async def test_what_is_imported_comes_before_what_is_shipped(tmp_path: Path) -> None:
    name = "traincrew/torch:0.1.0"
    store = ImageStore(tmp_path)
    assert store.is_present(name) is False
    imported(tmp_path, name)
    assert store.is_present(name)
    found = await store.pull(name, lambda _: None)
    assert found.root is not None
    assert found.root.layers == ()
    own = tmp_path / "own.yaml"
    own.write_text("environments: [{name: mine, images: [traincrew/torch], python: current}]")
    assert (await ImageStore(tmp_path, [own]).pull(name, lambda _: None)).name == "mine"
