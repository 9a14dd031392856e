"""The store: images and their layers, shared, verified, removed, whatever happens meanwhile."""

import errno
import gzip
import json
import multiprocessing
import os
import resource
import shlex
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from local.images.oci.packing import (
    DIRECTORY,
    FILE,
    Layer,
    config_of,
    digest,
    directory,
    entry,
    hard_link,
    in_use,
    left_in,
    listing,
    manifest_of,
    pax,
    stored,
    symlink,
)
from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.manifest import Damage
from traincrew.local.images.oci.removal import ImageInUseError
from traincrew.local.images.oci.store import ContainerImages

BASE = Layer(directory("./"), directory("bin/", 0o555), entry("bin/sh", b"#!", mode=0o755))
TOP = Layer(entry("etc/motd", b"hello"), directory("bin/", 0o555), entry("bin/.wh.sh"))
OTHER = Layer(entry("other", b"other"))
NAME = "docker.io/me/train:7"


def layers_in(images: ContainerImages) -> int:
    return len(list(images.directory.glob("layers/*/sha256-*")))


def test_an_image_is_stored_and_found(images: ContainerImages) -> None:
    image = stored(images, BASE, TOP, names=(NAME,))
    assert image == images.find(NAME) == images.find(image.id)
    assert images.images() == [image]
    assert image.names == (NAME,)
    assert image.id == digest(config_of(BASE, TOP))
    assert image.config.arguments == ("true",)
    assert image.size == 7
    assert [list(listing(layer)) for layer in image.layers] == [
        ["bin", "bin/sh"],
        ["bin", "bin/sh", "etc", "etc/motd"],
    ]
    assert image == ContainerImages(images.directory).find(NAME)
    assert images.find("docker.io/me/train:8") is images.find("sha256:" + "0" * 64) is None
    assert images.find(f"docker.io/me/train@{image.digest}") == image
    assert images.find(f"docker.io/me/train:9@{image.digest}") == image
    assert images.find(f"docker.io/me/trai@{image.digest}") is None
    assert left_in(images) == []


def test_nobody_else_can_look_into_the_store(images: ContainerImages) -> None:
    old = os.umask(0)
    try:
        stored(images, BASE)
    finally:
        os.umask(old)
    assert stat.S_IMODE(images.directory.stat().st_mode) == 0o700


def test_layers_are_shared_and_go_with_the_last_image(images: ContainerImages) -> None:
    first = stored(images, BASE, TOP, names=("docker.io/a/a:1",))
    second = stored(images, BASE, OTHER, names=("docker.io/b/b:1",))
    assert layers_in(images) == 3
    assert first.layers[0] == second.layers[0]
    images.remove(first)
    assert layers_in(images) == 2
    assert images.find("docker.io/a/a:1") is images.find(first.id) is None
    images.remove(second)
    assert layers_in(images) == 0
    assert images.images() == []
    assert left_in(images) == []
    images.remove(second)


def test_a_name_moves_to_the_newer_image(images: ContainerImages) -> None:
    first = stored(images, BASE, names=(NAME, "docker.io/me/train:latest"))
    second = stored(images, TOP, names=(NAME,))
    found = images.find(NAME)
    assert found is not None
    assert found.id == second.id
    left = images.find(first.id)
    assert left is not None
    assert left.names == ("docker.io/me/train:latest",)
    images.untag("docker.io/me/train:latest")
    left = images.find(first.id)
    assert left is not None
    assert left.names == ()


def test_an_import_that_is_pulled_later_gets_its_digest(images: ContainerImages) -> None:
    config = config_of(BASE)
    stored(images, BASE)
    assert images.add_image([NAME], b"", config, "").digest == digest(manifest_of(config, BASE))
    assert images.add_image([NAME], b"{}", config, digest(b"{}")).digest == digest(b"{}")
    with_digest = images.add_image([NAME], b"{1}", config, digest(b"{1}"), imported=True)
    assert with_digest.imported
    assert not images.add_image([NAME], b"{1}", config, digest(b"{1}")).imported
    assert len(images.images()) == 1


def test_what_a_layer_hides_is_not_mounted(images: ContainerImages) -> None:
    opaque = Layer(entry(".wh..wh..opq"), entry("new", b"1"))
    assert len(stored(images, BASE, TOP, opaque, OTHER).layers) == 2
    # overlayfs refuses one directory twice: the upper one hides all of the lower one.
    twice = stored(images, OTHER, TOP, OTHER)
    assert len(twice.layers) == 2
    assert list(listing(twice.layers[1])) == ["other"]
    assert twice.size == 10


def test_a_layer_that_is_there_is_not_unpacked_again(images: ContainerImages) -> None:
    stored(images, BASE)
    blob = images.partial(BASE.descriptor.digest)
    blob.write_bytes(b"not even read")
    images.add_layer(blob, BASE.descriptor, BASE.diff_id, lambda _: None)
    assert not blob.exists()


def test_progress_counts_compressed_bytes(images: ContainerImages) -> None:
    layer = Layer(entry("a", os.urandom(3_000_000)))
    blob = images.partial(layer.descriptor.digest)
    blob.write_bytes(layer.blob)
    said: list[int] = []
    images.add_layer(blob, layer.descriptor, layer.diff_id, said.append)
    assert said == sorted(said)
    assert len(said) > 2
    assert said[-1] == len(layer.blob)


def test_refused_layers_leave_nothing(images: ContainerImages) -> None:
    blob = images.partial(BASE.descriptor.digest)
    blob.write_bytes(BASE.blob[:-20])
    with pytest.raises(ImageContentError, match=r"a layer has \d+ bytes, and the manifest says"):
        images.add_layer(blob, BASE.descriptor, BASE.diff_id, lambda _: None)
    assert not blob.exists()
    assert left_in(images) == []
    with pytest.raises(ImageContentError, match=r"its layer sha256:.* was removed"):
        images.add_image([NAME], b"", config_of(BASE), "")
    assert images.images() == []
    stored(images, BASE)


def test_an_image_in_use_is_not_removed(images: ContainerImages) -> None:
    image = stored(images, BASE, names=(NAME,))
    with in_use(images, image):
        with pytest.raises(ImageInUseError, match=f"{NAME} is in use by a container"):
            ContainerImages(images.directory).remove(image)
        with in_use(images, image):
            pass
    assert images.find(NAME) == image
    images.remove(image)
    assert not images.place(image).exists()


def test_layers_that_a_pull_counts_on_are_not_pruned(images: ContainerImages) -> None:
    first = stored(images, BASE, TOP)
    pulling = ContainerImages(images.directory)
    assert pulling.has_layer(BASE.diff_id)
    blob = pulling.partial(OTHER.descriptor.digest)
    blob.write_bytes(OTHER.blob)
    pulling.add_layer(blob, OTHER.descriptor, OTHER.diff_id, lambda _: None)
    images.remove(first)
    assert images.prune() == []
    assert layers_in(images) == 2
    second = stored(pulling, BASE, OTHER)
    images.remove(second)
    assert layers_in(images) == 0
    # A pull that has ended without an image counts on nothing.
    stored(images, BASE)
    assert pulling.has_layer(BASE.diff_id)
    del pulling
    assert images.prune() == []
    images.remove(images.images()[0])
    assert layers_in(images) == 0


WHOLE = Layer(
    directory("./"),
    directory("d/", 0o555),
    entry("d/file", b"content"),
    hard_link("d/hard", "d/file"),
    symlink("link", "d/file"),
    entry("fifo", b"", b"6"),
    entry("secret", b"secret", mode=0),
    entry("dark", b"", DIRECTORY, mode=0),
    entry("dark/file", b"dark"),
    entry("gone/.wh.x"),
    entry("gone/.wh..wh..opq"),
    entry("again/one", b"1"),
    entry("again", b"file"),
    directory("again/"),
    entry("again/two", b"2"),
)


def changed_by(images: ContainerImages, script: str) -> list[Damage]:
    image = stored(images, WHOLE)
    assert images.verify(image) == []
    subprocess.run(["sh", "-ec", script], cwd=image.layers[0], check=True)
    found = images.verify(image)
    short = image.layers[0].parent.name[7:19]
    return [Damage(one.change, one.path.removeprefix(f"{short}/"), one.detail) for one in found]


@pytest.mark.parametrize(
    ("script", "damages"),
    [
        ("chmod 700 d; rm d/file",
         [("changed", "d", "mode 0700, was 0555"), ("missing", "d/file", "")]),
        ("touch -r d/file t; printf CONTENT > d/file; touch -r t d/file; rm t",
         [("changed", "d/file", "content"), ("changed", "d/hard", "content")]),
        ("printf more >> d/file",
         [("changed", "d/file", "size 11, was 7"), ("changed", "d/hard", "size 11, was 7")]),
        ("touch secret", [("changed", "secret", "time of change")]),
        ("chmod 644 secret", [("changed", "secret", "mode 0644, was 0000")]),
        ("ln -sf elsewhere link", [("changed", "link", "target")]),
        ("rm link; mkdir link; touch link/x", [("changed", "link", "type")]),
        ("rm fifo; mknod fifo c 0 0", [("changed", "fifo", "type")]),
        ("rm gone/x", [("missing", "gone/x", "")]),
        ("setfattr -x user.overlay.opaque gone", [("changed", "gone", "no longer opaque")]),
        ("touch new", [("added", "new", "")]),
        ("rm -r again; touch again", [("changed", "again", "type"), ("missing", "again/two", "")]),
        ("rm ../records", [("missing", "records", "")]),
        ("echo xxxxx > ../records", [("changed", "records", "content")]),
    ],
)  # fmt: skip
def test_damage_is_found(
    images: ContainerImages, script: str, damages: list[tuple[str, str, str]]
) -> None:
    if "setfattr" in script:
        program = 'import os; os.removexattr("gone", "user.overlay.opaque")'
        script = shlex.join([sys.executable, "-c", program])
    assert [(one.change, one.path, one.detail) for one in changed_by(images, script)] == damages


def test_damaged_layers_are_pulled_anew(images: ContainerImages) -> None:
    image = stored(images, BASE, WHOLE, names=(NAME,))
    (image.layers[1] / "d/file").write_bytes(b"changed")
    with in_use(images, image), pytest.raises(ImageInUseError):
        images.discard_damaged(image)
    assert images.discard_damaged(image) == 1
    assert images.find(NAME) is None
    assert images.has_layer(BASE.diff_id)
    assert not images.has_layer(WHOLE.diff_id)
    # An image that lacks a layer keeps the others.
    assert ContainerImages(images.directory).prune() == []
    again = stored(images, BASE, WHOLE)
    assert again.names == (NAME,)
    assert images.verify(again) == []


def test_a_user_without_rights_has_all_of_it(as_nobody: Path) -> None:
    images = ContainerImages(as_nobody / "store")
    image = stored(images, BASE, TOP, WHOLE, names=(NAME,))
    assert "layers/single" in str(image.layers[0])
    assert listing(image.layers[1])["bin/sh"] == "whiteout"
    assert images.verify(image) == []
    assert stat.S_IMODE((image.layers[2] / "dark").stat().st_mode) == 0
    images.remove(image)
    assert layers_in(images) == 0
    assert left_in(images) == []


def test_other_users_directories_are_not_used(as_nobody: Path) -> None:
    os.seteuid(0)
    (as_nobody / "store").mkdir()
    os.seteuid(65534)
    with pytest.raises(PermissionError, match="belongs to another user"):
        stored(ContainerImages(as_nobody / "store"), BASE)


def test_many_threads_store_images_of_the_same_layers(images: ContainerImages) -> None:
    def store(number: int) -> str:
        mine = ContainerImages(images.directory)
        top = Layer(entry(f"file{number % 3}", b"x" * 10_000))
        return stored(mine, BASE, OTHER, top, names=(f"docker.io/me/x:{number}",)).id

    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(store, range(16)))
    assert len(set(ids)) == 3
    assert len(images.images()) == 3
    assert sum(len(image.names) for image in images.images()) == 16
    assert left_in(images) == []


def change(images: ContainerImages) -> None:
    """Write something: the first time, that removes what nobody works on."""
    with images.temporary():
        pass


def test_what_killed_processes_left_is_removed(images: ContainerImages) -> None:
    stored(images, BASE)
    partial = images.directory / "partial"
    (partial / "layer-0123").mkdir()
    (partial / "layer-0123" / "tree" / "sealed").mkdir(parents=True)
    (partial / "layer-0123" / "tree" / "sealed" / "file").touch()
    (partial / "layer-0123" / "tree" / "sealed").chmod(0)
    (partial / "layer-0123.lock").touch()
    (partial / "removed-4567").mkdir()
    (partial / "89.pins").write_text("x")
    (partial / "image-0123.lock").touch()
    new = images.partial(OTHER.descriptor.digest)
    new.write_bytes(b"the first half")
    old = images.partial(TOP.descriptor.digest)
    old.write_bytes(b"of last week")
    os.utime(old, (1_700_000_000, 1_700_000_000))
    with images.lock(WHOLE.descriptor.digest):
        change(ContainerImages(images.directory))
        assert sorted(left_in(images)) == sorted(
            [new.name, images.partial(WHOLE.descriptor.digest).name + ".lock"]
        )
    assert new.read_bytes() == b"the first half"


def test_trees_that_others_work_on_are_not_removed(images: ContainerImages) -> None:
    layer = Layer(entry("a", os.urandom(500_000)), entry("b", b"b"))
    during: list[list[str]] = []

    def look(_: int) -> None:
        change(ContainerImages(images.directory))
        during.append(left_in(images))

    blob = images.partial(layer.descriptor.digest)
    blob.write_bytes(layer.blob)
    images.add_layer(blob, layer.descriptor, layer.diff_id, look)
    assert all(any(name.startswith("layer-") for name in names) for names in during)
    assert images.has_layer(layer.diff_id)


def _file_size_limit(directory: str, layer: Layer) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    images = ContainerImages(Path(directory))
    blob = images.partial(layer.descriptor.digest)
    try:
        images.add_layer(blob, layer.descriptor, layer.diff_id, lambda _: None)
    except OSError as error:
        os._exit(0 if error.errno == errno.EFBIG and str(images.directory) in str(error) else 2)
    os._exit(1)


def test_what_cannot_be_written_is_reported_and_the_blob_is_kept(images: ContainerImages) -> None:
    image = stored(images, BASE, names=(NAME,))
    layer = Layer(entry("large", b"x" * (2 << 20)))
    images.partial(layer.descriptor.digest).write_bytes(layer.blob)
    process = multiprocessing.get_context("fork").Process(
        target=_file_size_limit, args=(str(images.directory), layer)
    )
    process.start()
    process.join(30)
    assert process.exitcode == 0
    assert left_in(images) == [images.partial(layer.descriptor.digest).name]
    assert images.find(NAME) == image
    stored(images, layer)


def test_deep_trees_are_removed(images: ContainerImages) -> None:
    name = "/".join(["d"] * 250)
    image = stored(images, Layer(entry(name, b"x"), entry("/".join(["e" * 250] * 15), b"x")))
    assert images.verify(image) == []
    images.remove(image)
    assert layers_in(images) == 0


def test_damaged_records_of_the_store_are_as_if_they_were_missing(images: ContainerImages) -> None:
    image = stored(images, BASE, names=(NAME,))
    (images.directory / "images" / "names.json").write_bytes(b"\xff{")
    assert images.find(NAME) is None
    assert images.find(image.id) is not None
    (images.directory / "images" / image.id.replace(":", "-") / "image.json").write_text("{}")
    assert images.images() == []
    assert stored(images, BASE, names=(NAME,)).names == (NAME,)


def test_what_was_left_out_is_reported_with_the_image(
    images: ContainerImages,
) -> None:
    layer = Layer(
        entry("dev/sda", b"", b"4"),
        pax({"SCHILY.xattr.trusted.overlay.redirect": b"/etc"}) + entry("x", b"", FILE),
    )
    assert stored(images, BASE, layer).left_out == (
        "devices: of 1 entry, such as dev/sda",
        "extended attributes trusted.overlay.redirect: of 1 entry, such as x",
    )


def test_files_of_the_store_are_readable_by_people(images: ContainerImages) -> None:
    image = stored(images, BASE, names=(NAME,))
    names = json.loads((images.directory / "images" / "names.json").read_text())
    assert names == {"names": {NAME: image.id}}
    assert gzip.decompress(BASE.blob) == BASE.archive
