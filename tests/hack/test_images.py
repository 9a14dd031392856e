"""What images are made of, as their Dockerfiles say."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from hack.images import ImageError, builder, catalog, lock
from hack.images.catalog import Image

if TYPE_CHECKING:
    from pathlib import Path


EVERY = {**catalog.IMAGES, **catalog.EXAMPLES}


@pytest.mark.parametrize("image", EVERY.values(), ids=list(EVERY))
def test_every_image_is_made_of_one_locked_release(image: Image) -> None:
    assert lock.read()[catalog.suite(image)]


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ("FROM scratch\n", "it names none"),
        (
            (
                "FROM docker.io/library/debian:trixie-slim AS build\n"
                "FROM docker.io/library/debian:bookworm-slim\n"
            ),
            "it names bookworm and trixie",
        ),
    ],
)
def test_packages_of_one_release_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, named: str
) -> None:
    (tmp_path / "Dockerfile").write_text(lines)
    monkeypatch.setattr(catalog, "REPOSITORY", tmp_path)

    with pytest.raises(ImageError, match=named):
        catalog.suite(Image("mine", "me/mine", "Dockerfile"))


def test_packages_are_checked_by_their_release() -> None:
    packages = {"libc6": lock.read()["trixie"]["libc6"]}

    assert lock.differences(packages, "trixie") == []
    assert lock.differences({"libc6": "2.36-9"}, "trixie") == [
        f"libc6 is 2.36-9, older than {packages['libc6']}"
    ]
    assert lock.differences({"libc6-dev": "2.41"}, "trixie") == [
        "libc6-dev is not in debian-packages.lock"
    ]


def test_an_image_is_built_again_with_those_it_copies_from(monkeypatch: pytest.MonkeyPatch) -> None:
    before = builder.archive("openmpi-own")
    monkeypatch.setattr(catalog, "version", lambda: "9.9.9")
    needed = builder.archive("openmpi")
    monkeypatch.undo()
    archive = builder.archive
    monkeypatch.setattr(
        builder, "archive", lambda name: needed if name == "openmpi" else archive(name)
    )

    assert archive("openmpi-own") != before


# -- the image that cannot be built here -----------------------------------------------------------

OPENMPI = catalog.image("openmpi")
CUDA = Image("openmpi-cuda", "traincrew/openmpi-cuda", "images/openmpi-cuda/Dockerfile")


def instructions(image: Image, *names: str) -> list[list[str]]:
    """Return the instructions of a Dockerfile with these names, as words."""
    text = (catalog.REPOSITORY / image.dockerfile).read_text()
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    lines = (line.split(maxsplit=1) for line in text.splitlines() if line)
    return [[name, *rest[0].split()] for name, *rest in lines if name in names]


def test_the_image_for_gpus_copies_what_there_is() -> None:
    scripts = {path for path in catalog.context(OPENMPI) if "/files/openmpi/" in path}
    assert scripts
    assert scripts < set(catalog.context(CUDA))


def test_the_image_for_gpus_has_ssh_as_the_others_have_it() -> None:
    """Scripts at the same places, and the variables that Open MPI needs."""
    for name in ("COPY", "EXPOSE", "USER", "CMD"):
        wanted = [
            words
            for words in instructions(OPENMPI, name)
            if name != "COPY" or "files/openmpi/" in words[1]
        ]
        assert wanted
        found = instructions(CUDA, name)
        assert [words for words in wanted if words not in found] == []
    usual = next(words for words in instructions(OPENMPI, "ENV") if "LANG=C.UTF-8" in words)
    (variables,) = instructions(CUDA, "ENV")
    assert set(usual) < set(variables)


def test_the_image_for_gpus_has_bases_that_may_be_chosen() -> None:
    assert [words[1] for words in instructions(CUDA, "FROM")] == ["${BUILD_IMAGE}", "${BASE_IMAGE}"]
    defaults = arguments(CUDA)
    assert [name for name, value in defaults.items() if not value] == ["VERSION"]
    assert defaults["BASE_IMAGE"].startswith("docker.io/nvidia/cuda:${CUDA_VERSION}-runtime-")


def arguments(image: Image) -> dict[str, str]:
    """Return the build arguments of an image, with their defaults."""
    given = [words[1].partition("=") for words in instructions(image, "ARG")]
    return {name: value for name, _, value in given}


@pytest.mark.parametrize("image", [OPENMPI, CUDA], ids=["openmpi", "openmpi-cuda"])
def test_the_user_of_an_image_may_be_chosen(image: Image) -> None:
    found = {name: value for name, value in arguments(image).items() if name.startswith("SSH_")}
    assert found == {"SSH_USER": "openmpi", "SSH_UID": "1000", "SSH_GID": "1000"}
    names = [words[:2] for words in instructions(image, "ARG", "RUN")]
    users = next(
        index
        for index, words in enumerate(instructions(image, "ARG", "RUN"))
        if "/build/users.sh" in words
    )
    declared = {words[1].partition("=")[0] for words in names[:users] if words[0] == "ARG"}
    assert set(found) <= declared, "a RUN sees the arguments before it"


@pytest.mark.parametrize(
    ("given", "entry", "group"),
    [
        ({}, "openmpi:x:1000:1000:openmpi:/tmp:/bin/bash", "openmpi:x:1000:"),
        (
            {"SSH_USER": "me", "SSH_UID": "2000", "SSH_GID": "3000"},
            "me:x:2000:3000:me:/tmp:/bin/bash",
            "me:x:3000:",
        ),
    ],
)
def test_the_user_is_in_the_image(
    tmp_path: Path, given: dict[str, str], entry: str, group: str
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "var/lib").mkdir(parents=True)
    for name, text in (
        (
            "passwd",
            "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n",
        ),
        ("group", "root:x:0:\n"),
        ("nsswitch.conf", "passwd:         files\n"),
    ):
        (tmp_path / "etc" / name).write_text(text)
    script = (catalog.REPOSITORY / "images/openmpi/users.sh").read_text()
    script = re.sub(r"(?<![\w:])/(etc|run|var|workspace)\b", rf"{tmp_path}/\1", script)
    subprocess.run(["sh", "-c", script], check=True, env={"PATH": os.environ["PATH"], **given})

    users = (tmp_path / "etc/passwd").read_text().splitlines()
    assert entry in users
    assert "nobody:x:65534:65534:nobody:/tmp:/bin/sh" in users
    assert group in (tmp_path / "etc/group").read_text().splitlines()


@pytest.mark.parametrize(
    ("target", "image"), [("image-openmpi", "openmpi"), ("image-chainermn", "openmpi-chainermn")]
)
def test_images_are_built_with_another_engine(target: str, image: str) -> None:
    words = (
        "--dry-run",
        target,
        "ENGINE=podman",
        "VERSION=1.2",
        "BUILD_ARGS=--build-arg SSH_UID=7",
    )
    # Of a make that runs the tests.
    inherited = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "BUILD_ARGS", "ENGINE", "VERSION"}
    result = subprocess.run(
        ["make", *words],
        cwd=catalog.REPOSITORY,
        env={name: value for name, value in os.environ.items() if name not in inherited},
        check=True,
        capture_output=True,
        text=True,
    )

    command = " ".join(result.stdout.replace("\\\n", " ").split())
    wanted = catalog.image(image)
    assert command.startswith(f"podman build --file {wanted.dockerfile} --build-arg VERSION=1.2")
    assert "--build-arg SSH_UID=7" in command
    assert command.endswith(f"--tag {wanted.reference}:1.2 .")
    assert (f"--target {wanted.target}" in command) == bool(wanted.target)


def test_the_image_for_gpus_has_commands_that_a_shell_reads() -> None:
    for _, *words in instructions(CUDA, "RUN"):
        subprocess.run(["sh", "-n", "-c", " ".join(words)], check=True)
    (configure,) = [words for words in instructions(CUDA, "RUN") if "./configure" in words]
    assert "mpi_built_with_cuda_support:value:true" in configure, "a build without CUDA fails"


def test_the_image_for_gpus_changes_parameters_that_there_are() -> None:
    (changed,) = re.findall(r"s/\^(.*?)\$/", (catalog.REPOSITORY / CUDA.dockerfile).read_text())
    parameters = catalog.REPOSITORY / "images/openmpi/openmpi-mca-params.conf"
    assert changed in parameters.read_text().splitlines()
