"""Registries that need more than a name: mirrors, plain HTTP, certificates of their own.

The file is ``registries.yaml`` beside the catalogs of environments; see
``docs/guides/registries.md``.
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct, field

from traincrew.engine.yamlreader import YamlError, explain, read
from traincrew.local.images.mapping import default_catalog
from traincrew.local.images.oci.registry.failures import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DOCKER_HUB",
    "HostSettings",
    "Mirror",
    "RegistrySettings",
    "default_settings_file",
    "load_settings",
]

DOCKER_HUB = "docker.io"
_HUB_SERVER = "registry-1.docker.io"
_HUB_NAMES = (DOCKER_HUB, "index.docker.io", _HUB_SERVER)
_MAX_BYTES = 128 * 1024
_MAX_ENTRIES = 500
_MAX_MIRRORS = 20
_MAX_SHOWN = 100
_FIELDS = ("mirrors", "plainHTTP", "caFile", "skipTLSVerify")
_HOST = re.compile(
    r"(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}))(?::[0-9]{1,5})?"
)
_PATH = re.compile(r"[a-z0-9._/-]*")


class Mirror(Struct, frozen=True):
    """Where a registry's images can be had as well.

    Attributes:
        host: With a port, if it is not the usual one.
        path: Stands before the repository there; empty, or without slashes at its ends.
    """

    host: str
    path: str = ""


class HostSettings(Struct, frozen=True, kw_only=True):
    """One registry, or one mirror.

    Attributes:
        mirrors: Asked before the registry itself, in this order.
        plain_http: Whether it speaks HTTP without TLS; None if nobody has said.
        ca_file: Certificates that are trusted beside those of the system.
        skip_verify: Any certificate will do.
    """

    mirrors: tuple[Mirror, ...] = ()
    plain_http: bool | None = None
    ca_file: Path | None = None
    skip_verify: bool = False


class RegistrySettings(Struct, frozen=True):
    """What the file says, by the name of the registry.

    Attributes:
        hosts: Registries; Docker Hub is ``docker.io``.
        path: The file, for messages.
    """

    hosts: Mapping[str, HostSettings] = field(default_factory=dict)
    path: Path | None = None

    def of(self, host: str) -> HostSettings:
        """Return the settings of a registry or mirror."""
        name = DOCKER_HUB if host in _HUB_NAMES else host
        return self.hosts.get(name) or HostSettings()

    @staticmethod
    def server_of(registry: str) -> str:
        """Return the host that serves a registry: Docker Hub's has another name."""
        return _HUB_SERVER if registry in _HUB_NAMES else registry


def default_settings_file() -> Path:
    """Return the default path of the file."""
    return default_catalog().parent / "registries.yaml"


def load_settings(path: Path | None = None) -> RegistrySettings:
    """Read the settings; a default file that is missing says nothing.

    Raises:
        SettingsError: The file cannot be read or used.
    """
    named, path = path, path or default_settings_file()
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise SettingsError(f"{path}: has more than {_MAX_BYTES >> 10} KiB")
        document = read(content, unique=True)
    except FileNotFoundError as error:
        if named is None:
            return RegistrySettings({}, path)
        raise SettingsError(f"{path}: does not exist") from error
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except YamlError as error:
        raise SettingsError(explain(str(path), error)) from error
    if document is None:
        return RegistrySettings({}, path)
    if not isinstance(document, dict) or set(document) - {"registries"}:
        raise SettingsError(f'{path}: the only top-level field is "registries"')
    entries = document.get("registries")
    if entries is None:
        entries = {}
    if not isinstance(entries, dict):
        raise SettingsError(
            f"{path}: registries: must be a mapping of registries, such as docker.io, "
            "to their settings"
        )
    if len(entries) > _MAX_ENTRIES:
        raise SettingsError(f"{path}: registries: has more than {_MAX_ENTRIES} entries")
    return RegistrySettings(
        {name: _Entry(path, name, raw).read() for name, raw in entries.items()}, path
    )


class _Entry:
    """One registry of the file, with errors that name the field."""

    def __init__(self, path: Path, name: str, raw: Any) -> None:
        self._path = path
        self._where = f"{path}: registries[{_shown(name)}]"
        self._raw: dict[str, Any] = {} if raw is None else raw
        if not isinstance(self._raw, dict):
            raise SettingsError(f"{self._where}: must be a mapping with {', '.join(_FIELDS)}")
        if "://" in name:
            self._fail("", f"write the host alone: {_shown(name.split('://', 1)[1])}")
        if not _HOST.fullmatch(name):
            self._fail("", "is not a registry: write host, or host:port")
        if name in _HUB_NAMES and name != DOCKER_HUB:
            self._fail("", "write docker.io, as in the names of images")
        for key in self._raw:
            if key not in _FIELDS:
                close = difflib.get_close_matches(str(key)[:_MAX_SHOWN], _FIELDS, n=1)
                hint = f'did you mean "{close[0]}"?' if close else f"known: {', '.join(_FIELDS)}"
                self._fail(str(key)[:_MAX_SHOWN], f"is not a setting of a registry; {hint}")

    def read(self) -> HostSettings:
        """Return the settings."""
        plain = self._flag("plainHTTP")
        skip = self._flag("skipTLSVerify")
        ca_file = self._ca_file()
        if plain and (skip or ca_file):
            other = "skipTLSVerify" if skip else "caFile"
            self._fail(
                "plainHTTP", f"excludes {other}, because plain HTTP has no certificates: remove one"
            )
        if skip and ca_file:
            self._fail("skipTLSVerify", "excludes caFile: remove one")
        return HostSettings(
            mirrors=self._mirrors(), plain_http=plain, ca_file=ca_file, skip_verify=bool(skip)
        )

    def _mirrors(self) -> tuple[Mirror, ...]:
        value = self._raw.get("mirrors")
        if value is None:
            return ()
        if not isinstance(value, list) or len(value) > _MAX_MIRRORS:
            self._fail("mirrors", f"must be a list of at most {_MAX_MIRRORS} hosts")
        return tuple(self._mirror(f"mirrors[{index}]", text) for index, text in enumerate(value))

    def _mirror(self, key: str, text: Any) -> Mirror:
        if not isinstance(text, str):
            self._fail(key, "must be a string: host, host:port or host:port/path")
        if "://" in text:
            scheme, _, rest = text.partition("://")
            hint = ""
            if scheme == "http":
                hint = f", and plainHTTP: true under registries[{_shown(rest.partition('/')[0])}]"
            self._fail(key, f"is an address: write {_shown(rest.rstrip('/'))}{hint}")
        host, _, path = text.partition("/")
        path = path.strip("/")
        if not _HOST.fullmatch(host) or not _PATH.fullmatch(path) or ".." in path:
            self._fail(
                key, f"{_shown(text)} is not a mirror: write host, host:port or host:port/path"
            )
        return Mirror(host, path)

    def _ca_file(self) -> Path | None:
        text = self._raw.get("caFile")
        if text is None:
            return None
        if not isinstance(text, str) or not text or "\0" in text:
            self._fail("caFile", "must be the path of a file of certificates (PEM)")
        path = self._path.parent / Path(text).expanduser()
        try:
            path.stat()
        except OSError as error:
            self._fail("caFile", f"{path}: {os.strerror(error.errno or 0)}")
        return path

    def _flag(self, key: str) -> bool | None:
        value = self._raw.get(key)
        if value is not None and not isinstance(value, bool):
            self._fail(key, f"must be true or false, not {_shown(value)}")
        return value

    def _fail(self, key: str, problem: str) -> NoReturn:
        raise SettingsError(f"{self._where}{f'.{key}' if key else ''}: {problem}")


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = text[:_MAX_SHOWN]
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
