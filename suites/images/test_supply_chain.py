"""What an image consists of is written down, and signatures vouch for both."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from hack.cluster import binaries
from hack.cluster.images import write_image
from hack.images import ImageError, catalog, materials, signing
from hack.images.archive import Archive
from packageurl import PackageURL
from suites.images.conftest import REQUIRE
from suites.images.container import Container

from hack import images

Containers = Callable[[str], Container]


# -- bills of materials --------------------------------------------------------------------------


def described(image: Container) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(materials.path(image.archive.path).read_text())
    return document


def versions(image: Container, kind: str) -> dict[str, str]:
    """Return what an image's bill of materials names of a kind of packages."""
    urls = [PackageURL.from_string(each["purl"]) for each in described(image)["components"]]
    return {
        "/".join(filter(None, (url.namespace, url.name))): str(url.version)
        for url in urls
        if url.type == kind
    }


@pytest.mark.parametrize("name", images.names())
def test_every_image_has_its_bill_of_materials(container: Containers, name: str) -> None:
    image = container(name)
    text = materials.path(image.archive.path).read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert described(image)["metadata"]["component"] == {
        "bom-ref": image.archive.identity,
        "hashes": [{"alg": "SHA-256", "content": image.archive.identity.split(":")[1]}],
        "name": f"docker.io/{catalog.image(name).reference}",
        "type": "container",
        "version": catalog.version(),
    }
    debian = {f"debian/{name}": its for name, its in image.archive.packages().items()}
    assert versions(image, "deb") == debian
    # What programs of the image say themselves.
    for path in image.root.glob("opt/*/lib/python3*/site-packages/*.dist-info/METADATA"):
        project, version = path.parent.name.removesuffix(".dist-info").rsplit("-", 1)
        found = versions(image, "pypi")
        assert found[project.lower().replace("_", "-").replace(".", "-")] == version
    assert materials.document(image.archive, "", catalog.image(name).programs)


def test_the_modules_of_kubectl_are_named(container: Containers) -> None:
    modules = versions(container("helper"), "golang")
    assert modules["k8s.io/kubernetes"] == f"v{binaries.version('kubernetes')}"
    assert modules["k8s.io/kubectl"].startswith("v0.")
    assert modules["stdlib"].startswith("1.")
    # Compiled with the paths of no machine.
    kubectl = container("helper").file("/usr/local/bin/kubectl").read_bytes()
    assert str(binaries.cache_directory().parent).encode() not in kubectl
    assert str(Path.home() / "go").encode() not in kubectl


# -- signatures ----------------------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    """A new pair of keys without a password: the secret and the public one."""
    if not shutil.which("minisign"):
        text = "nothing can be signed here; missing: minisign: apt-get install minisign"
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    secret, public = tmp_path / "secret.key", tmp_path / "public.key"
    words = ["minisign", "-G", "-W", "-s", str(secret), "-p", str(public)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return secret, public


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A small image with a bill of materials."""
    path = tmp_path / "small-1.tar"
    write_image(path, "docker.io/me/small:1", b"\0" * 10240, {})
    described = {"metadata": {"component": {"bom-ref": Archive(path).identity}}}
    materials.path(path).write_text(json.dumps(described))
    return path


def test_a_signed_image_is_verified(image: Path, keys: tuple[Path, Path]) -> None:
    secret, public = keys
    signing.sign([image], secret)
    signing.verify(image, public)
    # Without this project, too.
    for file in (image, materials.path(image)):
        subprocess.run(["minisign", "-V", "-q", "-p", public, "-m", file], check=True)


@pytest.mark.parametrize("changed", ["the image", "the bill of materials"])
def test_a_change_is_noticed(image: Path, keys: tuple[Path, Path], changed: str) -> None:
    secret, public = keys
    signing.sign([image], secret)
    file = image if changed == "the image" else materials.path(image)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(ImageError, match=f"{file.name}: not what was signed with this key"):
        signing.verify(image, public)


def test_a_signature_is_of_one_image_and_one_key(
    image: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    secret, public = keys
    with pytest.raises(ImageError, match=r"small-1\.tar\.minisig: there is no such file"):
        signing.verify(image, public)
    signing.sign([image], secret)
    other = tmp_path / "other.pub"
    words = ["minisign", "-G", "-W", "-s", str(tmp_path / "other.key"), "-p", str(other)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    with pytest.raises(ImageError, match="not what was signed with this key"):
        signing.verify(image, other)
    # The signed description of another image beside it.
    materials.path(image).write_text('{"metadata": {"component": {"bom-ref": "sha256:0"}}}')
    signing.sign([image], secret)
    with pytest.raises(ImageError, match="describes sha256:0"):
        signing.verify(image, public)


def command(*words: str, key: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hack.images", *words],
        cwd=catalog.REPOSITORY,
        env={**os.environ, signing.KEY: key},
        capture_output=True,
        text=True,
        check=False,
    )


def test_images_are_signed_when_they_are_built(
    container: Containers, keys: tuple[Path, Path]
) -> None:
    secret, public = keys
    archive = container("busybox").archive.path
    unsigned = command("build", "busybox", key="")
    assert (unsigned.returncode, unsigned.stdout) == (0, f"{archive}\n")
    assert "not signed: TRAINCREW_SIGNING_KEY names no key" in unsigned.stderr

    signed = command("build", "busybox", key=str(secret))
    assert (signed.returncode, signed.stdout) == (0, f"{archive}\n"), signed.stderr
    assert "not signed" not in signed.stderr
    verified = command("verify", "--key", str(public), str(archive), key="")
    assert verified.returncode == 0, verified.stderr
    assert verified.stdout.startswith(f"{archive}: signed")

    for file in (archive, materials.path(archive)):  # the key is thrown away
        signing.path(file).unlink()
    missing = command("build", "busybox", key="/nowhere/key")
    assert missing.returncode == 1
    assert "/nowhere/key: there is no such file" in missing.stderr
