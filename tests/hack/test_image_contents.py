"""What an image consists of: read from its file, written down, and checked before it is kept."""

from __future__ import annotations

import io
import json
import re
import tarfile
from typing import TYPE_CHECKING

import pytest
from cyclonedx.schema import SchemaVersion
from hack.cluster import binaries
from hack.images import ImageError, builder, catalog, debian, lock, machine, materials, programs
from hack.images.archive import Archive
from hack.images.workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STATUS = (
    "Package: libc6\nStatus: install ok installed\nVersion: {}\n\nPackage: tzdata\nVersion: 1\n"
)
PACKAGES = "opt/x/lib/python3.11/site-packages"
METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: 1.2\n\nName: of the text\n"


def tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def write(path: Path, *layers: Mapping[str, str]) -> Path:
    """Write an image with these layers."""
    configuration = {"architecture": "amd64", "created": "2026-01-02T03:04:05.6Z", "config": {}}
    manifest = {
        "Config": "c.json",
        "RepoTags": ["docker.io/me/x:7"],
        "Layers": [f"{index}.tar" for index in range(len(layers))],
    }
    files = {
        f"{index}.tar": tar({name: text.encode() for name, text in layer.items()})
        for index, layer in enumerate(layers)
    }
    files |= {
        "c.json": json.dumps(configuration).encode(),
        "manifest.json": json.dumps([manifest]).encode(),
    }
    path.write_bytes(tar(files))
    return path


def test_a_bill_of_materials_names_what_is_in_the_image(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.tar",
        {
            "var/lib/dpkg/status": STATUS.format("2.36-9+deb12u1"),
            f"{PACKAGES}/one-1.2.dist-info/METADATA": METADATA.format("One"),
            f"{PACKAGES}/two-1.2.dist-info/METADATA": METADATA.format("two"),
            f"{PACKAGES}/three-1.2.dist-info/METADATA": METADATA.format("three"),
            # Of a Debian package.
            "usr/lib/python3/dist-packages/four-1.2.dist-info/METADATA": METADATA.format("four"),
        },
        {
            "var/lib/dpkg/status": STATUS.format("2.36-9+deb12u2"),
            f"{PACKAGES}/.wh.two-1.2.dist-info": "",
            f"{PACKAGES}/three-1.2.dist-info/.wh..wh..opq": "",
        },
    )
    text = materials.write(path, "bookworm").read_text()

    from cyclonedx.validation.json import JsonStrictValidator  # slow

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    assert [each["purl"] for each in document["components"]] == [
        "pkg:pypi/one@1.2",
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u2?arch=amd64&distro=bookworm",
        "pkg:deb/debian/tzdata@1?arch=amd64&distro=bookworm",
    ]
    described = document["metadata"]["component"]
    assert (described["name"], described["version"]) == ("docker.io/me/x", "7")
    assert described["bom-ref"] == Archive(path).identity
    assert document["metadata"]["timestamp"] == "2026-01-02T03:04:05+00:00"
    assert materials.is_current(path)
    materials.path(path).write_text('{"serialNumber": "urn:uuid:0"}')
    assert not materials.is_current(path)
    # The same image has the same document.
    assert materials.document(Archive(path), "bookworm") == text


def test_a_program_that_names_no_modules_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "x.tar", {"usr/local/bin/kubectl": "#!/bin/sh\n"})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageError, match="kubectl: Go is needed to read its modules"):
        materials.document(Archive(path), "bookworm", ["kubectl"])

    go = tmp_path / "go"  # says of a script what the real one says
    go.write_text("#!/bin/sh\necho 'unrecognized file format' >&2\nexit 1\n")
    go.chmod(0o755)
    with pytest.raises(ImageError, match="kubectl: names no Go modules: unrecognized file format"):
        materials.document(Archive(path), "bookworm", ["kubectl"])


# -- Debian packages -------------------------------------------------------------------------------


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """The Debian packages of images that are "built" here without any tools."""
    found = {"libc6": lock.read()["bookworm"]["libc6"]}

    def buildah(_: Workshop, *words: str, log: Path) -> None:
        if words[0] == "push":
            path = re.fullmatch(r"docker-archive:(.*?\.tar):.*", words[-1])
            assert path is not None
            status = "\n\n".join(f"Package: {name}\nVersion: {its}" for name, its in found.items())
            write(log.parent / "x", {"var/lib/dpkg/status": status}).rename(path[1])

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "missing", list)
    monkeypatch.setattr(debian, "ensure", lambda *_: None)
    monkeypatch.setattr(Workshop, "buildah", buildah)
    monkeypatch.setattr(Workshop, "settings", lambda *_: [])
    return found


def test_an_image_with_the_packages_of_the_lock_is_built(packages: dict[str, str]) -> None:
    said: list[str] = []
    path = builder.build("busybox", report=said.append)
    assert path == builder.archive("busybox")
    assert path.exists()
    document = json.loads(materials.path(path).read_text())
    assert [each["name"] for each in document["components"]] == list(packages)
    assert not any("newer" in line for line in said)
    # One that was built before its description was written gets it.
    materials.path(path).unlink()
    assert builder.build("busybox") == path
    assert json.loads(materials.path(path).read_text()) == document


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"libc6": "2.30-1"}, "libc6 is 2.30-1, older than 2.36-"),
        ({"evil": "1"}, "evil is not in debian-packages.lock"),
    ],
)
def test_an_image_with_other_packages_is_not_built(
    packages: dict[str, str], changed: dict[str, str], problem: str
) -> None:
    packages |= changed
    with pytest.raises(ImageError, match=f"{problem}.*`python -m hack.images lock`"):
        builder.build("busybox")
    assert not builder.archive("busybox").exists()
    # That is how they get into the lock file.
    assert builder.build("busybox", locked=False).exists()


def test_newer_packages_are_reported(packages: dict[str, str]) -> None:
    locked = packages["libc6"]
    packages["libc6"] = "9:1"
    said: list[str] = []
    assert builder.build("busybox", report=said.append).exists()
    assert (
        f"newer than in debian-packages.lock, as security updates are: libc6 {locked} -> 9:1"
        in ("\n".join(said))
    )


# -- Go programs -----------------------------------------------------------------------------------


def test_images_with_programs_are_built_again_when_these_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = builder.archive("helper")
    monkeypatch.setattr(programs, "key", lambda name: f"another-{name}")
    assert builder.archive("helper") != before


def test_docker_builds_kubectl_as_make_images_does() -> None:
    """With the options of the compiler, and the checksums of the modules."""
    text = (catalog.REPOSITORY / "images/helper/Dockerfile").read_text().replace("\\\n", " ")
    (command,) = re.findall(r"go build (.*?) -o /kubectl (\S+)", text)
    program = binaries.PROGRAMS["kubectl"]
    wanted = " ".join(binaries._flags(program))
    for name, value in (
        ("$release", f"v{binaries.version('kubectl')}"),
        ("${minor%.*}", binaries.version("kubectl").split(".")[1]),
    ):
        wanted = wanted.replace(f"={value} ", f"={name} ")
    wanted = wanted.replace("k8s.io/component-base/version.", "$version.")
    assert " ".join(command[0].replace('"', "").split()) == wanted
    assert command[1] == program.package
    copied = [path for path in catalog.context(catalog.image("helper")) if "/modules/" in path]
    assert sorted(copied) == [f"hack/cluster/modules/kubectl/go.{end}" for end in ("mod", "sum")]


def test_all_programs_of_kubernetes_have_one_version() -> None:
    sums = set()
    for module in ("kubernetes", "kubectl", "e2e"):
        text = (binaries.MODULES / module / "go.sum").read_text()
        sums |= set(re.findall(r"^(k8s\.io/kubernetes v[\d.]+ h1:\S+)$", text, re.MULTILINE))
    assert len(sums) == 1
    assert f"v{binaries.version('kubectl')} " in sums.pop()
