"""Image references and the patterns that match them.

The rules are those of ``distribution/reference``: a name without a registry belongs to
``docker.io``, one without a namespace to ``library``, and no tag means ``latest``.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from msgspec import Struct

from traincrew.local.images.errors import ImagePullError

_DOMAIN = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)"
    r"(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?::[0-9]+)?"
)
_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")


class ImageReference(Struct, frozen=True):
    """A reference in full: ``docker.io/library/python:3.11@sha256:…``."""

    repository: str
    tag: str | None
    digest: str | None

    def __str__(self) -> str:
        """Return the normalized form."""
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.repository}{tag}{digest}"

    @property
    def familiar_name(self) -> str:
        """The repository without the default registry and namespace."""
        return familiar(self.repository)


def familiar(name: str) -> str:
    """Return a normalized reference as people write it, without Docker's registry and namespace."""
    return name.removeprefix("docker.io/").removeprefix("library/")


def parse_reference(image: str) -> ImageReference:
    """Parse and normalize the ``image`` of a container.

    Raises:
        ImagePullError: With reason ``InvalidImageName``, naming the part that is wrong.
    """
    name, _, digest = image.partition("@")
    name, tag = _split_tag(name)
    problem = None
    if not name:
        problem = "it is empty" if not image else "it has no name"
    elif "@" in image and not _DIGEST.fullmatch(digest):
        problem = f'"{digest}" is not a digest such as sha256:<64 hexadecimal digits>'
    elif tag is not None and not _TAG.fullmatch(tag):
        problem = f'"{tag}" is not a tag (letters, digits, "_", "." and "-", at most 128)'
    if problem is None:
        repository = _normalize_repository(name)
        domain, _, path = repository.partition("/")
        if not _DOMAIN.fullmatch(domain):
            problem = f'"{domain}" is not a registry name'
        else:
            wrong = [part for part in path.split("/") if not _COMPONENT.fullmatch(part)]
            if wrong:
                problem = (
                    f'"{wrong[0]}" is not a valid part of a repository name '
                    '(lower case letters and digits, separated by ".", "_" or "-")'
                )
    if problem is not None:
        raise ImagePullError(
            "InvalidImageName",
            f'failed to parse image name "{image}": invalid reference format: {problem}',
        )
    return ImageReference(
        repository=repository,
        tag=tag if tag is not None or digest else "latest",
        digest=digest or None,
    )


class ImagePattern(Struct, frozen=True):
    """A reference in which ``*``, ``?`` and ``[…]`` stand for any text, as in a shell.

    A pattern without a tag matches every tag and digest; ``:*`` does the same.
    """

    repository: str
    tag: str
    digest: str | None

    def matches(self, reference: ImageReference) -> bool:
        """Return whether `reference` matches the pattern."""
        if not fnmatchcase(reference.repository, self.repository):
            return False
        if self.digest is not None and not fnmatchcase(reference.digest or "", self.digest):
            return False
        if reference.tag is None:
            return self.tag == "*"
        return fnmatchcase(reference.tag, self.tag)


def parse_pattern(pattern: str) -> ImagePattern:
    """Parse one entry of a catalog's ``images`` list.

    Raises:
        ValueError: The pattern is empty or has white space in it.
    """
    if not pattern or any(character.isspace() for character in pattern):
        raise ValueError(f'"{pattern}" is not an image name or pattern')
    name, _, digest = pattern.partition("@")
    name, tag = _split_tag(name)
    # A wildcard at the start matches registries, too: nothing is prepended.
    repository = name if name[:1] in {"*", "?", "["} else _normalize_repository(name)
    return ImagePattern(repository=repository, tag=tag or "*", digest=digest or None)


def _split_tag(name: str) -> tuple[str, str | None]:
    head, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    return head + slash + last, tag if colon else None


def _normalize_repository(name: str) -> str:
    first, slash, _ = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return name if first != "index.docker.io" else "docker.io" + name[len(first) :]
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"
