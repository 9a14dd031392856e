"""Indexes, manifests and configurations: what is read, and what is refused with a reason."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from local.images.oci.packing import Layer, digest, entry, manifest_of
from local.images.oci.packing import config_of as packed_config
from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.configuration import parse_config
from traincrew.local.images.oci.documents import (
    Index,
    Manifest,
    ManifestSearch,
    digest_of,
    parse_document,
)
from traincrew.local.images.oci.model import Descriptor
from traincrew.local.images.oci.platforms import Platform, platform_of

OCI = "application/vnd.oci.image."
DOCKER = "application/vnd.docker.distribution.manifest."
AMD64 = Platform("linux", "amd64")
ARM64 = Platform("linux", "arm64", "v8")
LAYER = Layer(entry("a", b"1"))
config_of = partial(packed_config, architecture="amd64")
CONFIG = config_of(LAYER)
MANIFEST = manifest_of(CONFIG, LAYER)


def index_of(*entries: tuple[str, bytes, dict[str, str] | None], kind: str = OCI) -> bytes:
    manifests = []
    for media_type, data, platform in entries:
        one: dict[str, Any] = {
            "mediaType": media_type, "digest": digest(data), "size": len(data),
        }  # fmt: skip
        if platform is not None:
            one["platform"] = platform
        manifests.append(one)
    media_type = kind + "index.v1+json" if kind == OCI else DOCKER + "list.v2+json"
    return json.dumps(
        {"schemaVersion": 2, "mediaType": media_type, "manifests": manifests}
    ).encode()


def offered(*platforms: str) -> bytes:
    """Return an index with one manifest for each platform, which is also its content."""
    return index_of(
        *(
            (
                OCI + "manifest.v1+json",
                name.encode(),
                dict(zip(("os", "architecture", "variant"), name.split("/"), strict=False)),
            )
            for name in platforms
        )
    )


def changed(data: bytes, change: Callable[[Any], object]) -> bytes:
    document = json.loads(data)
    change(document)
    return json.dumps(document).encode()


def test_a_manifest_of_oci_and_of_docker() -> None:
    found = parse_document(MANIFEST)
    assert found == Manifest(
        Descriptor(OCI + "config.v1+json", digest(CONFIG), len(CONFIG)), (LAYER.descriptor,)
    )
    docker = (
        MANIFEST.replace(b"oci.image.manifest.v1", b"docker.distribution.manifest.v2")
        .replace(b"oci.image.config.v1", b"docker.container.image.v1")
        .replace(b"oci.image.layer.v1.tar+gzip", b"docker.image.rootfs.diff.tar.gzip")
    )
    read = parse_document(docker, DOCKER + "v2+json; charset=utf-8")
    assert isinstance(read, Manifest)
    assert [layer.digest for layer in read.layers] == [LAYER.descriptor.digest]
    untyped = changed(MANIFEST, lambda document: document.pop("mediaType"))
    assert parse_document(untyped) == found


@pytest.mark.parametrize(
    ("platforms", "machine", "chosen"),
    [
        ("linux/arm64/v8 linux/amd64 windows/amd64", AMD64, "linux/amd64"),
        ("linux/amd64 linux/arm64/v8", ARM64, "linux/arm64/v8"),
        ("linux/amd64 linux/arm64", ARM64, "linux/arm64"),
        ("linux/amd64/v3 linux/amd64", AMD64, "linux/amd64"),
        ("linux/amd64/v3 linux/amd64/v2", AMD64, "linux/amd64/v2"),
        ("linux/arm/v5 linux/arm/v6 linux/arm/v7", platform_of("armv6l"), "linux/arm/v6"),
        ("linux/amd64 unknown/unknown", AMD64, "linux/amd64"),
    ],
)
def test_the_manifest_for_this_machine_is_chosen(
    platforms: str, machine: Platform, chosen: str
) -> None:
    found = ManifestSearch(machine).follow(offered(*platforms.split()))
    assert isinstance(found, Descriptor)
    assert found.digest == digest(chosen.encode())


def test_indexes_may_be_nested() -> None:
    inner = index_of((OCI + "manifest.v1+json", MANIFEST, {"os": "linux", "architecture": "amd64"}))
    outer = index_of((OCI + "index.v1+json", inner, None), kind=DOCKER)
    search = ManifestSearch(AMD64)
    for data in (outer, inner):
        found = search.follow(data)
        assert isinstance(found, Descriptor)
        assert found.digest in {digest(inner), digest(MANIFEST)}
    assert isinstance(search.follow(MANIFEST), Manifest)


def set_field(*path: str | int, to: object) -> Callable[[Any], object]:
    def change(document: Any) -> None:
        for part in path[:-1]:
            document = document[part]
        document[path[-1]] = to

    return change


REFUSED_MANIFESTS = {
    "no JSON": (b"<html>", "its manifest cannot be read"),
    "a list": (b"[]", "its manifest cannot be read"),
    "nothing in it": (b"{}", "neither config and layers"),
    "too large": (b" " * (4 << 20) + MANIFEST, "more than 4 MiB"),
    "too deep": (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    "schema 1": (b'{"schemaVersion": 1, "fsLayers": [], "history": []}', "schema 1"),
    "both in one": (
        changed(MANIFEST, set_field("manifests", to=[])),
        "an index and a manifest in one",
    ),
    "300 layers": (
        changed(MANIFEST, lambda document: document.update(layers=document["layers"] * 300)),
        "it has 300 layers; at most 256",
    ),
    "a wrong digest": (
        changed(MANIFEST, set_field("layers", 0, "digest", to="sha256:../../etc/passwd")),
        'the digest of layers[0] is "sha256:../../etc/passwd"',
    ),
    "another algorithm": (
        changed(MANIFEST, set_field("config", "digest", to="md5:" + "0" * 32)),
        'the digest of config is "md5:',
    ),
    "a negative size": (
        changed(MANIFEST, set_field("layers", 0, "size", to=-1)),
        "the size of layers[0] is -1",
    ),
    "a huge size": (
        changed(MANIFEST, set_field("layers", 0, "size", to=1 << 62)),
        "the size of layers[0] is 4611686018427387904",
    ),
    "a text as size": (
        changed(MANIFEST, set_field("layers", 0, "size", to="1")),
        "`$.layers[0].size`",
    ),
    "a chart": (
        changed(MANIFEST, set_field("config", "mediaType", to="application/vnd.cncf.helm.config")),
        "it is no container image",
    ),
    "a layer of another kind": (
        changed(MANIFEST, set_field("layers", 0, "mediaType", to="application/vnd.wasm")),
        'layers[0] is of type "application/vnd.wasm"',
    ),
    "many manifests": (
        offered(*["linux/amd64"] * 1001),
        "its index has 1001 manifests",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("data", "message"), REFUSED_MANIFESTS.values(), ids=REFUSED_MANIFESTS)
def test_manifests_that_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(ImageContentError) as caught:
        parse_document(data)
    assert message in str(caught.value)


def test_a_document_of_two_types_is_refused() -> None:
    with pytest.raises(ImageContentError, match=r"calls itself .* but was sent as"):
        parse_document(MANIFEST, OCI + "index.v1+json")


def test_an_image_for_other_machines_says_for_which() -> None:
    data = offered("windows/amd64", "linux/s390x", "unknown/unknown")
    with pytest.raises(ImageContentError) as caught:
        ManifestSearch(AMD64).follow(data)
    assert (
        str(caught.value) == "it is not for linux/amd64: it is there for linux/s390x, windows/amd64"
    )
    with pytest.raises(ImageContentError, match="its index has no manifest"):
        ManifestSearch(AMD64).follow(index_of())


def test_indexes_that_refer_to_each_other_end() -> None:
    search = ManifestSearch(AMD64)
    first = index_of((OCI + "index.v1+json", b"the other", None))
    search.follow(first)
    # No index can have its own digest in it; but a registry may send any document for a digest.
    with pytest.raises(ImageContentError, match="refer to each other"):
        search.follow(first)
    search = ManifestSearch(AMD64)
    for number in range(4):
        search.follow(index_of((OCI + "index.v1+json", b"%d" % number, None)))
    with pytest.raises(ImageContentError, match="nested more than 4 deep"):
        search.follow(index_of((OCI + "index.v1+json", b"deeper", None)))


def test_a_configuration() -> None:
    settings = {
        "Entrypoint": ["/init"], "Cmd": ["a", "b"], "Env": ["B=2", "A=1=1", "NOT_SET", "=x"],
        "WorkingDir": "work/../data", "User": "me:us", "Volumes": {"/data": {}, "/": {}},
        "StopSignal": "SIGQUIT", "Labels": {"x": "y"}, "ExposedPorts": {"80/tcp": {}},
    }  # fmt: skip
    found = parse_config(config_of(LAYER, config=settings), (LAYER.descriptor,), AMD64)
    assert found.diff_ids == (LAYER.diff_id,)
    assert (found.entrypoint, found.arguments) == (("/init",), ("a", "b"))
    assert list(found.variables.items()) == [("B", "2"), ("A", "1=1")]
    assert (found.working_directory, found.user, found.volumes) == ("/data", "me:us", ("/data",))
    assert (found.stop_signal, found.labels) == ("SIGQUIT", {"x": "y"})
    bare = parse_config(config_of(config=None), None, AMD64)
    assert (bare.working_directory, bare.stop_signal, bare.entrypoint) == ("/", "SIGTERM", ())


REFUSED_CONFIGS = {
    "no JSON": (b"\xff", "its configuration cannot be read"),
    "no layers": (b"{}", "rootfs"),
    "too large": (b" " * (4 << 20) + CONFIG, "more than 4 MiB"),
    "another architecture": (packed_config(LAYER, architecture="s390x"), "it is for linux/s390x"),
    "another system": (config_of(LAYER, os="windows"), "it is for windows/amd64"),
    "fewer layers": (config_of(), "its manifest has 1 layers and its configuration 0"),
    "a path as layer": (
        config_of(rootfs={"type": "layers", "diff_ids": ["../../x"]}),
        "the digest of rootfs.diff_ids[0]",
    ),
    "a text as arguments": (config_of(LAYER, config={"Cmd": "ls -l"}), "`$.config.Cmd`"),
    "NUL in a variable": (config_of(LAYER, config={"Env": ["A=\0"]}), "a NUL character in Env"),
    "another rootfs": (
        config_of(rootfs={"type": "squashfs", "diff_ids": [LAYER.diff_id]}),
        'a rootfs of type "squashfs"',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("data", "message"), REFUSED_CONFIGS.values(), ids=REFUSED_CONFIGS)
def test_configurations_that_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(ImageContentError) as caught:
        parse_config(data, (LAYER.descriptor,), AMD64)
    assert message in str(caught.value)


def test_digests_are_those_of_the_bytes() -> None:
    assert digest_of(b"abc").endswith("f20015ad")
    assert isinstance(parse_document(offered()), Index)
