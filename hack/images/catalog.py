"""Which images there are, and what goes into each."""

from __future__ import annotations

import hashlib
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hack.images.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REPOSITORY = Path(__file__).resolve().parents[2]
# Left out of every build context, as images/*/Dockerfile.dockerignore does for other builders.
IGNORED = {"__pycache__"}


@dataclass(frozen=True)
class Image:
    """One image.

    Attributes:
        name: What people call it here.
        reference: The name without the version, as manifests write it.
        dockerfile: Below the repository.
        target: The stage of the Dockerfile; the last one when None.
    """

    name: str
    reference: str
    dockerfile: str
    target: str | None = None

    @property
    def tagged(self) -> str:
        """The full name, with registry and version: what container runtimes know it by."""
        return f"docker.io/{self.reference}:{version()}"


IMAGES: Mapping[str, Image] = {
    image.name: image
    for image in (
        Image("operator", "traincrew/traincrew", "images/operator/Dockerfile"),
        Image("helper", "traincrew/helper", "images/helper/Dockerfile"),
        Image("chainermn", "traincrew/chainermn", "images/chainermn/Dockerfile"),
        Image("chainer", "traincrew/chainer", "images/chainermn/Dockerfile", target="chainer"),
        Image("busybox", "traincrew/busybox", "images/busybox/Dockerfile"),
    )
}


def names() -> list[str]:
    """Every image that can be built."""
    return list(IMAGES)


def image(name: str) -> Image:
    """Look an image up.

    Raises:
        ImageError: There is none of that name.
    """
    try:
        return IMAGES[name]
    except KeyError:
        raise ImageError(f'there is no image "{name}"; there are {", ".join(IMAGES)}') from None


def version() -> str:
    """The version of the project, which is the version of its images."""
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def context(dockerfile: str) -> dict[str, Path]:
    """The files a Dockerfile copies from its build context, by their path in it.

    Reading them from the Dockerfile keeps one list of them: the key of an image changes when, and
    only when, one of these does.

    Raises:
        ImageError: The Dockerfile copies something that does not exist.
    """
    files = {dockerfile: REPOSITORY / dockerfile}
    for source in _copied((REPOSITORY / dockerfile).read_text()):
        path = REPOSITORY / source
        if not path.exists():
            raise ImageError(f"{dockerfile}: COPY {source}: there is no such file")
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        files |= {
            str(file.relative_to(REPOSITORY)): file
            for file in found
            if file.is_file() and not IGNORED & set(file.parts)
        }
    return files


def _copied(dockerfile: str) -> Iterator[str]:
    """Sources of every COPY that reads from the build context."""
    for line in dockerfile.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0].upper() in {"COPY", "ADD"}:
            options = [word for word in words[1:] if word.startswith("--")]
            if not any(option.startswith("--from=") for option in options):
                yield from words[1 + len(options) : -1]


def key(wanted: Image, base: str) -> str:
    """A fingerprint of everything an image is made from.

    Args:
        wanted: The image.
        base: The fingerprint of the base image.
    """
    digest = hashlib.sha256(f"{base} {wanted.tagged} {wanted.target}".encode())
    for path, file in sorted(context(wanted.dockerfile).items()):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"\n{path} {executable(file)} {content}".encode())
    return digest.hexdigest()[:16]


def executable(file: Path) -> bool:
    """Whether a file may be run: the only thing about its mode that counts, as in git."""
    return bool(file.stat().st_mode & 0o100)
