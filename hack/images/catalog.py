"""The images, and the files each is built from."""

from __future__ import annotations

import hashlib
import re
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hack.images.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

REPOSITORY = Path(__file__).resolve().parents[2]
_BASE = re.compile(r"^FROM docker\.io/library/debian:([a-z]+)-slim\b", re.MULTILINE)


@dataclass(frozen=True)
class Image:
    """One image.

    Attributes:
        name: Short name.
        reference: The name in manifests, without the version.
        dockerfile: Path in the repository.
        target: The stage of the Dockerfile; the last one if None.
        needs: Short names of images that the Dockerfile copies from.
        programs: Programs of `hack.cluster.binaries`, each in the place of the stage of that name.
    """

    name: str
    reference: str
    dockerfile: str
    target: str | None = None
    needs: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()

    @property
    def tagged(self) -> str:
        """The full name for container runtimes, with registry and version."""
        registry = "" if "." in self.reference.split("/")[0] else "docker.io/"
        return f"{registry}{self.reference}:{version()}"


@dataclass(frozen=True)
class File:
    """A file of a build context.

    Attributes:
        content: The whole content.
        executable: Whether it is executable: the only part of its mode that counts, as in git.
    """

    content: bytes
    executable: bool


IMAGES: Mapping[str, Image] = {
    image.name: image
    for image in (
        Image("operator", "traincrew/traincrew", "images/operator/Dockerfile"),
        Image("helper", "traincrew/helper", "images/helper/Dockerfile", programs=("kubectl",)),
        Image("git", "traincrew/git", "images/git/Dockerfile"),
        Image("chainermn", "traincrew/chainermn", "images/chainermn/Dockerfile"),
        Image("chainer", "traincrew/chainer", "images/chainermn/Dockerfile", target="chainer"),
        Image("busybox", "traincrew/busybox", "images/busybox/Dockerfile"),
        Image("torch", "traincrew/torch", "images/torch/Dockerfile"),
        Image("mxnet", "traincrew/mxnet", "images/mxnet/Dockerfile"),
        Image("etcd", "traincrew/etcd", "images/etcd/Dockerfile"),
        Image("openmpi", "traincrew/openmpi", "images/openmpi/Dockerfile"),
        Image(
            "openmpi-chainermn",
            "traincrew/openmpi-chainermn",
            "images/openmpi/Dockerfile",
            target="chainermn",
        ),
    )
}

EXAMPLES: Mapping[str, Image] = {
    image.name: image
    for image in (
        Image(
            "openmpi-own",
            "registry.example.com/me/openmpi-5",
            "examples/openmpi/own-image/Dockerfile",
            needs=("openmpi",),
        ),
    )
}
"""Images that users make from ours; they are not published."""


def names() -> list[str]:
    """Return the names of all images of the project."""
    return list(IMAGES)


def image(name: str) -> Image:
    """Look an image of the project or of an example up.

    Raises:
        ImageError: There is none of that name.
    """
    known = {**IMAGES, **EXAMPLES}
    try:
        return known[name]
    except KeyError:
        raise ImageError(f'there is no image "{name}"; there are {", ".join(known)}') from None


def suite(wanted: Image) -> str:
    """Return the release of Debian that an image is based on: ``bookworm``.

    Raises:
        ImageError: The Dockerfile names none, or several.
    """
    text = (REPOSITORY / wanted.dockerfile).read_text()
    found = {match[1] for match in _BASE.finditer(text)}
    if len(found) != 1:
        named = " and ".join(sorted(found)) or "none"
        raise ImageError(
            f"{wanted.dockerfile}: FROM has to name one release of Debian, as in"
            f" docker.io/library/debian:bookworm-slim; it names {named}"
        )
    return found.pop()


def version() -> str:
    """Return the version of the project, which is the version of its images."""
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def context(wanted: Image) -> dict[str, File]:
    """Return the files that a Dockerfile copies from its build context, by their path in it.

    They are read from the Dockerfile, so that there is one list: the key of an image changes if and
    only if one of these files does. All are read at once, because they may change during a build.

    Raises:
        ImageError: The Dockerfile copies something that does not exist.
    """
    dockerfile = REPOSITORY / wanted.dockerfile
    ignored = dockerfile.with_name("Dockerfile.dockerignore").read_text().split()
    found = [dockerfile]
    for source in _copied(dockerfile.read_text()):
        path = REPOSITORY / source
        if not path.exists():
            raise ImageError(f"{wanted.dockerfile}: COPY {source}: there is no such file")
        found += path.rglob("*") if path.is_dir() else [path]
    return {
        str(relative): File(path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in sorted(found)
        if path.is_file() and not _matches(relative := path.relative_to(REPOSITORY), ignored)
    }


def _matches(path: Path, patterns: Iterable[str]) -> bool:
    """Return whether a .dockerignore matches a path; we only use names and ``**/NAME``."""
    return any(
        pattern.removeprefix("**/") in path.parts
        if pattern.startswith("**/")
        else path.is_relative_to(pattern)
        for pattern in patterns
    )


def _copied(dockerfile: str) -> Iterator[str]:
    """Yield the sources of every COPY that reads from the build context."""
    for line in dockerfile.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0].upper() in {"COPY", "ADD"}:
            options = [word for word in words[1:] if word.startswith("--")]
            if not any(option.startswith("--from=") for option in options):
                yield from words[1 + len(options) : -1]


def key(wanted: Image, files: Mapping[str, File], how: str) -> str:
    """Return a fingerprint of everything an image is built from.

    Args:
        wanted: The image.
        files: Its build context.
        how: Identifies the base image and the build method.
    """
    digest = hashlib.sha256(f"{how} {wanted.tagged} {wanted.target}".encode())
    for path, file in files.items():
        content = hashlib.sha256(file.content).hexdigest()
        digest.update(f"\n{path} {file.executable} {content}".encode())
    return digest.hexdigest()[:16]
