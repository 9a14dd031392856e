"""Credentials of registries, and who gets them: the rules of the kubelet.

Keys are hosts, with globs, ports and the beginnings of paths. Several may fit an image; they are
tried in order, the longest key first (``k8s.io/kubernetes/pkg/credentialprovider``).
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Credential", "Keyring", "Looked", "PullSecret", "Source", "matching_keys"]

_HUB = "docker.io"
_HUB_KEY = "index.docker.io"
_PREFIX = re.compile(r"/v[12](?=/|$)")


class Credential(Struct, frozen=True, kw_only=True):
    """One user of one registry. Its text has no secrets.

    Attributes:
        user: Name; some registries take a token for a name, so it is not shown either.
        password: Or an access token.
        identity_token: A refresh token, which replaces both.
        origin: File or Secret and key, for messages.
    """

    user: str = ""
    password: str = ""
    identity_token: str = ""
    origin: str = ""

    def __repr__(self) -> str:
        return f"Credential({self.origin})"


class Looked(Struct, frozen=True):
    """Where credentials were looked for.

    Attributes:
        place: File or Secret.
        result: What there was, as text: ``does not exist``, ``has none for ghcr.io``.
        broken: Whether it cannot be read; `result` says why.
    """

    place: str
    result: str
    broken: bool = False


class Source(Protocol):
    """A place that may have credentials."""

    async def find(self, image: str) -> tuple[list[Credential], Looked]:
        """Return the credentials for ``registry/repository``, best first, and what was found."""
        ...


class PullSecret(Struct, frozen=True, kw_only=True):
    """A Secret that ``imagePullSecrets`` names.

    Attributes:
        name: ``namespace/name``, for messages.
        kind: Its type: ``kubernetes.io/dockerconfigjson`` or ``kubernetes.io/dockercfg``.
        data: Its content, decoded from base64. None if there is no such Secret.
    """

    name: str
    kind: str = "kubernetes.io/dockerconfigjson"
    data: Mapping[str, bytes] | None = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"PullSecret({self.name})"


class Keyring:
    """All credentials that may be used, in order.

    Args:
        sources: Where they are looked for; earlier ones are tried first.
    """

    def __init__(self, sources: Sequence[Source] = ()) -> None:
        self._sources = tuple(sources)

    async def find(self, image: str) -> tuple[list[Credential], list[Looked]]:
        """Return the credentials for an image, and where they were looked for.

        Args:
            image: ``registry/repository``, without a tag.
        """
        found: list[Credential] = []
        looked: list[Looked] = []
        for source in self._sources:
            credentials, place = await source.find(image)
            found += [one for one in credentials if not _is_known(one, found)]
            looked.append(place)
        return found, looked


def _is_known(one: Credential, found: Iterable[Credential]) -> bool:
    """Return whether the same words were found elsewhere: a refusal need not be heard twice."""
    return any(
        (one.user, one.password, one.identity_token)
        == (other.user, other.password, other.identity_token)
        for other in found
    )


def matching_keys(keys: Iterable[str], image: str) -> list[str]:
    """Return the keys that fit an image, the most specific one first.

    Args:
        keys: As in a file: ``ghcr.io``, ``*.example.com:5000/team``, ``https://index.docker.io/v1/``.
        image: ``registry/repository``, without a tag.
    """
    plain = sorted(((_plain_key(key), key) for key in keys), reverse=True)
    fitting = [key for name, key in plain if _fits(name, image)]
    if not fitting and image.partition("/")[0] in {_HUB, _HUB_KEY}:
        fitting = [key for name, key in plain if name == _HUB_KEY]
    return fitting


def _plain_key(key: str) -> str:
    """Return host and path of a key, without scheme and version of the protocol."""
    text = key if key.startswith(("http://", "https://")) else f"https://{key}"
    try:
        parts = urlsplit(text)
        host, path = parts.netloc, parts.path
    except ValueError:
        return ""
    path = _PREFIX.sub("", path, count=1)
    return host + (path if path != "/" else "")


def _fits(key: str, image: str) -> bool:
    host, _, path = key.partition("/")
    image_host, _, image_path = image.partition("/")
    name, port = _split_port(host)
    image_name, image_port = _split_port(image_host)
    if not name or port != image_port or not image_path.startswith(path):
        return False
    parts, image_parts = name.split("."), image_name.split(".")
    return len(parts) == len(image_parts) and all(
        fnmatchcase(one, pattern) for pattern, one in zip(parts, image_parts, strict=True)
    )


def _split_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    return (name, port) if colon and port.isdecimal() else (host, "")
