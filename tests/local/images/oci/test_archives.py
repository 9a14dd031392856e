"""Archives of `docker save` and layouts of OCI become images of the store."""

# ruff: noqa: E501 - each case of the table is one line

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from local.images.oci.packing import (
    Layer,
    config_of,
    digest,
    directory,
    entry,
    hard_link,
    left_in,
    listing,
    manifest_of,
    symlink,
)
from local.images.oci.test_layers import zstandard
from traincrew.local.images.errors import ImageContentError, ImagePullError
from traincrew.local.images.oci.archives import ImportProgress, import_images
from traincrew.local.images.oci.model import StoredImage
from traincrew.local.images.oci.store import ContainerImages

BASE = Layer(directory("bin/"), entry("bin/sh", b"#!"))
TOP = Layer(entry("top", b"top"))
TAG = "org.opencontainers.image.ref.name"
FULL = "io.containerd.image.name"
OCI = "application/vnd.oci.image."
NAME = "docker.io/me/train:7"


def archive(files: dict[str, bytes]) -> bytes:
    return Layer(*[entry(name, content) for name, content in files.items()]).archive


def docker_files(
    *images: tuple[list[str], list[Layer]], layer_name: str = "{hex}/layer.tar"
) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    listed = []
    for tags, layers in images:
        config = config_of(*layers)
        names = []
        for layer in layers:
            name = layer_name.format(hex=layer.diff_id[7:])
            files[name] = layer.archive
            names.append(name)
        config_name = digest(config)[7:] + ".json"
        files[config_name] = config
        listed.append({"Config": config_name, "RepoTags": tags, "Layers": names})
    files["manifest.json"] = json.dumps(listed).encode()
    files["repositories"] = b"{}"
    return files


def layout_files(*images: tuple[dict[str, str], list[Layer]]) -> dict[str, bytes]:
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}
    manifests = []
    for annotations, layers in images:
        config = config_of(*layers)
        manifest = manifest_of(config, *layers)
        for data in (config, manifest, *(layer.blob for layer in layers)):
            files[f"blobs/sha256/{digest(data)[7:]}"] = data
        manifests.append(
            {
                "mediaType": OCI + "manifest.v1+json", "digest": digest(manifest),
                "size": len(manifest), "annotations": annotations,
            }
        )  # fmt: skip
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": manifests}).encode()
    return files


def imported(images: ContainerImages, data: bytes, *names: str) -> list[StoredImage]:
    return import_images(images, io.BytesIO(data), names)


def check(image: StoredImage, *names: str) -> None:
    assert image.names == names
    assert [list(listing(layer)) for layer in image.layers] == [["bin", "bin/sh"], ["top"]]


def test_an_archive_of_docker(images: ContainerImages) -> None:
    files = docker_files((["me/train:7", "me/train:latest"], [BASE, TOP]))
    (image,) = imported(images, archive(files))
    check(image, NAME, "docker.io/me/train:latest")
    assert image.digest == ""
    assert images.find(NAME) == image
    assert left_in(images) == []


def test_an_archive_of_old_docker_links_to_layers_it_has_already(images: ContainerImages) -> None:
    files = docker_files((["me/train:7"], [BASE, TOP]))
    base = f"{BASE.diff_id[7:]}/layer.tar"
    manifest = json.loads(files["manifest.json"])
    manifest[0]["Layers"][0] = "again/layer.tar"
    files["manifest.json"] = json.dumps(manifest).encode()
    data = Layer(
        archive(files)[:-1024], symlink("again/layer.tar", "../" + base), hard_link("hard", base)
    ).archive
    check(imported(images, data)[0], NAME)


def test_an_archive_of_docker_25_is_a_layout_as_well(images: ContainerImages) -> None:
    layout = layout_files(({FULL: NAME, TAG: "7"}, [BASE, TOP]))
    docker = docker_files((["me/other:1"], [TOP]), layer_name="blobs/sha256/{hex}")
    (image,) = imported(images, archive({**docker, **layout}))
    check(image, NAME)
    assert image.digest == digest(manifest_of(config_of(BASE, TOP), BASE, TOP))


@pytest.mark.parametrize("compressed", [gzip.compress, zstandard, bytes])
def test_archives_may_be_compressed(images: ContainerImages, compressed: Any) -> None:
    data = compressed(archive(layout_files(({FULL: NAME}, [BASE, TOP]))))
    check(imported(images, data)[0], NAME)


def test_an_archive_may_come_from_a_pipe(images: ContainerImages) -> None:
    data = archive(docker_files((["me/train:7"], [BASE, TOP])))
    script = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(data)
        process.stdin.close()
        check(import_images(images, process.stdout)[0], NAME)  # type: ignore[arg-type]


def test_a_directory_in_the_layout_of_oci(images: ContainerImages, tmp_path: Path) -> None:
    for name, content in layout_files(({TAG: "7"}, [BASE, TOP])).items():
        (tmp_path / "layout" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "layout" / name).write_bytes(content)
    before = sorted(path.name for path in (tmp_path / "layout").rglob("*"))
    (image,) = import_images(images, tmp_path / "layout")
    check(image)
    assert sorted(path.name for path in (tmp_path / "layout").rglob("*")) == before
    (image,) = import_images(images, tmp_path / "layout", ["me/train:7"])
    check(image, NAME)


def test_all_images_of_an_archive_are_imported(images: ContainerImages) -> None:
    files = docker_files((["a/a:1"], [BASE, TOP]), (["b/b:1"], [BASE]), ([], [TOP]))
    found = imported(images, archive(files))
    assert [image.names for image in found] == [("docker.io/a/a:1",), ("docker.io/b/b:1",), ()]
    layout = layout_files(({TAG: "c.io/c/c:1"}, [BASE]), ({TAG: "c.io/c/c:2"}, [BASE]), ({}, [TOP]))
    found = imported(images, archive(layout))
    assert [image.names for image in found] == [
        ("c.io/c/c:1", "c.io/c/c:2", "docker.io/b/b:1"),
        (),
    ]
    assert len(images.images()) == 3


def test_of_several_platforms_this_machines_is_imported(images: ContainerImages) -> None:
    files = layout_files(({TAG: "x.io/x:1"}, [BASE, TOP]), ({TAG: "x.io/x:1"}, [TOP]))
    index = json.loads(files["index.json"])
    own = json.loads(config_of())["architecture"]
    index["manifests"][0]["platform"] = {"os": "linux", "architecture": own}
    index["manifests"][1]["platform"] = {"os": "linux", "architecture": "s390x"}
    files["index.json"] = json.dumps(index).encode()
    check(imported(images, archive(files))[0], "x.io/x:1")
    # As docker buildx writes it: an index in the index, with an attestation.
    inner = json.dumps({"schemaVersion": 2, "manifests": index["manifests"]}).encode()
    files[f"blobs/sha256/{digest(inner)[7:]}"] = inner
    outer = {
        "mediaType": OCI + "index.v1+json", "digest": digest(inner), "size": len(inner),
        "annotations": {FULL: "y.io/y:1"},
    }  # fmt: skip
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [outer]}).encode()
    check(imported(images, archive(files))[0], "x.io/x:1", "y.io/y:1")


def test_names_that_are_given(images: ContainerImages) -> None:
    data = archive(docker_files((["me/train:7"], [BASE, TOP])))
    check(imported(images, data, "mine")[0], "docker.io/library/mine:latest", NAME)
    with pytest.raises(ImagePullError, match='"UPPER" is not'):
        imported(images, data, "UPPER/x")
    two = archive(docker_files((["a:1"], [BASE]), (["b:1"], [TOP])))
    with pytest.raises(ImageContentError, match="it has 2 images: one name cannot be given to all"):
        imported(images, two, "mine")


def test_progress(images: ContainerImages) -> None:
    said: list[str] = []

    class Progress(ImportProgress):
        def reading(self, size: int) -> None:
            said.append(f"{size}")

        def unpacking(self, image: str, layer: int, layers: int) -> None:
            said.append(f"{image} {layer}/{layers}")

    data = archive(docker_files((["me/train:7"], [BASE, TOP])))
    import_images(images, io.BytesIO(data), progress=Progress())
    assert said[-3:] == [str(len(data)), f"{NAME} 1/2", f"{NAME} 2/2"]


def changed(files: dict[str, bytes], **changes: bytes | None) -> bytes:
    merged = {**files, **{name.replace("_", "."): data for name, data in changes.items()}}
    return archive({name: data for name, data in merged.items() if data is not None})


DOCKER = docker_files((["me/train:7"], [BASE, TOP]))
LAYOUT = layout_files(({FULL: NAME}, [BASE, TOP]))
CONFIG_NAME = next(name for name in DOCKER if name.endswith(".json"))


def listed(**fields: object) -> bytes:
    return json.dumps([{**json.loads(DOCKER["manifest.json"])[0], **fields}]).encode()


HOSTILE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "it is empty"),
    "an empty archive": (bytes(1024), "it is no image: it has neither index.json"),
    "a file system": (BASE.archive, "`docker export`"),
    "no archive": (b"#!/bin/sh\n" * 100, "the archive is no tar archive"),
    "cut": (archive(DOCKER)[:3000], "the archive is cut"),
    "cut gzip": (gzip.compress(archive(DOCKER))[:-30], "the archive is cut: its gzip data end"),
    "no images": (changed(DOCKER, manifest_json=b"[]"), "it has no image"),
    "no JSON": (changed(DOCKER, manifest_json=b"x"), "its manifest.json cannot be read"),
    "a large manifest": (changed(DOCKER, manifest_json=bytes(5 << 20)), "manifest.json has more than 4 MiB"),
    "no configuration": (changed(DOCKER, manifest_json=listed(Config="x.json")), "the archive has no file x.json"),
    "a configuration elsewhere": (changed(DOCKER, manifest_json=listed(Config="../../../../etc/passwd")), "the archive has no file ../../../../etc/passwd"),
    "a layer elsewhere": (changed(DOCKER, manifest_json=listed(Layers=["/etc/passwd", "/etc/group"])), "the archive has no file /etc/passwd"),
    "a layer too few": (changed(DOCKER, manifest_json=listed(Layers=["x"])), "its manifest.json has 1 layers and its configuration 2"),
    "layers exchanged": (changed(DOCKER, manifest_json=listed(Layers=json.loads(DOCKER["manifest.json"])[0]["Layers"][::-1])), "a layer unpacks to sha256:"),
    "a wrong name": (changed(DOCKER, manifest_json=listed(RepoTags=["UPPER"])), '"UPPER" is not a valid part'),
    "another manifest": (archive({**LAYOUT, f"blobs/sha256/{digest(manifest_of(config_of(BASE, TOP), BASE, TOP))[7:]}": b"{}"}), "has the digest sha256:44136fa355b3678a"),
    "another layer": (archive({**LAYOUT, f"blobs/sha256/{BASE.descriptor.digest[7:]}": TOP.blob}), "a layer has"),
    "a missing layer": (archive({name: data for name, data in LAYOUT.items() if BASE.descriptor.digest[7:] not in name}), "the archive has no file blobs/sha256/"),
    "an index of itself": (archive({"index.json": json.dumps({"manifests": [{"mediaType": OCI + "index.v1+json", "digest": "sha256:" + "0" * 64, "size": 1}]}).encode(), "blobs/sha256/" + "0" * 64: b"{}"}), "has the digest"),
    "links in a circle": (Layer(symlink("manifest.json", "a"), symlink("a", "manifest.json")).archive, "it is no image"),
    "links elsewhere": (Layer(symlink("manifest.json", "/etc/passwd")).archive, "it is no image"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "message"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_refused(images: ContainerImages, data: bytes, message: str) -> None:
    with pytest.raises(ImageContentError) as caught:
        imported(images, data)
    assert message in str(caught.value)
    assert images.images() == []
    assert left_in(images) == []


def test_a_directory_of_links_and_pipes(images: ContainerImages, tmp_path: Path) -> None:
    (tmp_path / "layout").mkdir()
    os.mkfifo(tmp_path / "layout" / "index.json")
    with pytest.raises(ImageContentError, match="it is no image"):
        import_images(images, tmp_path / "layout")
    (tmp_path / "layout" / "index.json").unlink()
    (tmp_path / "layout" / "index.json").symlink_to("/etc/passwd")
    with pytest.raises(ImageContentError, match="its manifest cannot be read"):
        import_images(images, tmp_path / "layout")
