"""Files and Secrets with credentials: Docker's ``config.json``, containers' ``auth.json``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from traincrew.engine.decoding import UndecodableError, decode_base64, decode_json
from traincrew.local.images.oci.registry import helpers
from traincrew.local.images.oci.registry.credentials import (
    Credential,
    Keyring,
    Looked,
    PullSecret,
    Source,
    matching_keys,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["FileSource", "SecretSource", "user_files", "user_keyring"]

_MAX_BYTES = 1 << 20
"""Of a file; a Secret has at most 1 MiB."""
_MAX_ENTRIES = 1000
_MAX_NAME = 100
_JSON_TYPE, _JSON_KEY = "kubernetes.io/dockerconfigjson", ".dockerconfigjson"
_LEGACY_TYPE, _LEGACY_KEY = "kubernetes.io/dockercfg", ".dockercfg"


class _BrokenError(ValueError):
    """A document cannot be used; the message names the field, and has nothing of its values."""


def user_keyring(
    secrets: Iterable[PullSecret] = (), environment: Mapping[str, str] | None = None
) -> Keyring:
    """Return the credentials of Secrets, then those of this user's files.

    Args:
        secrets: Of a pod and its ServiceAccount.
        environment: Variables; those of this process by default.
    """
    return Keyring([*(SecretSource(secret) for secret in secrets), *user_files(environment)])


def user_files(environment: Mapping[str, str] | None = None) -> list[Source]:
    """Return the files in which this user may have credentials, in the order they are tried."""
    variables = os.environ if environment is None else environment
    home = Path(variables.get("HOME") or Path.home())
    files: list[Source] = []
    if named := variables.get("REGISTRY_AUTH_FILE"):
        files.append(FileSource(Path(named), "REGISTRY_AUTH_FILE"))
    elif runtime := variables.get("XDG_RUNTIME_DIR"):
        files.append(FileSource(Path(runtime, "containers", "auth.json")))
    if named := variables.get("DOCKER_CONFIG"):
        files.append(FileSource(Path(named, "config.json"), "DOCKER_CONFIG"))
    else:
        files.append(FileSource(home / ".docker" / "config.json"))
    return files


class FileSource:
    """A file of credentials.

    Args:
        path: The file; it may be missing.
        variable: The variable that names it, if one does.
    """

    def __init__(self, path: Path, variable: str = "") -> None:
        self._path = path
        self._place = f"{path} ({variable})" if variable else str(path)

    async def find(self, image: str) -> tuple[list[Credential], Looked]:
        """Return the credentials for an image, best first, and what was found."""
        try:
            with self._path.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return [], Looked(self._place, "does not exist")
        except OSError as error:
            return [], Looked(self._place, f"cannot be read: {error.strerror}", broken=True)
        try:
            document = _read(content)
            programs = _helpers_of(document)
            entries = _mapping(document, "auths")
            found = await self._from_program(document, programs, image)
            found += _from_entries(entries, "auths", image, self._place)
        except (_BrokenError, helpers.HelperError) as error:
            return [], Looked(self._place, str(error), broken=True)
        return found, _looked(self._place, [*entries, *programs], found, image)

    async def _from_program(
        self, document: dict[str, Any], programs: Mapping[str, str], image: str
    ) -> list[Credential]:
        """Ask the program that keeps the credentials of a registry, if one does."""
        registry = image.partition("/")[0]
        server = helpers.HUB_SERVER if registry == "docker.io" else registry
        keys = matching_keys(programs, image)
        program = programs[keys[0]] if keys else document.get("credsStore")
        if not program:
            return []
        name = f"credHelpers[{_shown(keys[0])}]" if keys else "credsStore"
        if not isinstance(program, str):
            raise _BrokenError(f"{name}: must be a string")
        one = await helpers.ask(program, server, f"{self._place}: {name}")
        return [] if one is None else [one]


class SecretSource:
    """A Secret of ``imagePullSecrets``.

    Args:
        secret: The Secret.
    """

    def __init__(self, secret: PullSecret) -> None:
        self._secret = secret
        self._place = f"secret {secret.name}"

    async def find(self, image: str) -> tuple[list[Credential], Looked]:
        """Return the credentials for an image, best first, and what was found."""
        secret = self._secret
        if secret.data is None:
            return [], Looked(self._place, "does not exist", broken=True)
        try:
            document, where = _entries_of(secret.kind, secret.data)
            found = _from_entries(document, where, image, self._place)
        except _BrokenError as error:
            return [], Looked(self._place, str(error), broken=True)
        return found, _looked(self._place, list(document), found, image)


def _entries_of(kind: str, data: Mapping[str, bytes]) -> tuple[dict[str, Any], str]:
    """Return the entries of a Secret, and the field that has them."""
    key = {_JSON_TYPE: _JSON_KEY, _LEGACY_TYPE: _LEGACY_KEY}.get(kind)
    if key is None:
        _refuse(f"type: must be {_JSON_TYPE} or {_LEGACY_TYPE}, not {_shown(kind)}")
    where = f"data[{key}]"
    if key not in data:
        _refuse(f"{where}: is missing")
    document = _read(data[key], f"{where}: ")
    if key == _LEGACY_KEY:
        return document, where
    return _mapping(document, "auths", f"{where}."), f"{where}.auths"


def _looked(place: str, keys: list[str], found: list[Credential], image: str) -> Looked:
    registry = image.partition("/")[0]
    if found:
        return Looked(place, f"has credentials for {registry}")
    if not keys:
        return Looked(place, "has no credentials")
    names = ", ".join(_shown(key) for key in keys[:5]) + (", …" if len(keys) > 5 else "")
    return Looked(place, f"has none for {registry}, only for {names}")


def _read(content: bytes, where: str = "") -> dict[str, Any]:
    if len(content) > _MAX_BYTES:
        raise _BrokenError(f"{where}has more than {_MAX_BYTES >> 20} MiB")
    if not content.strip():
        return {}
    try:
        document = decode_json(content)
    except UndecodableError as error:
        raise _BrokenError(f"{where}is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise _BrokenError(f"{where}must be a JSON object")
    return document


def _mapping(document: Mapping[str, Any], key: str, where: str = "") -> dict[str, Any]:
    value = document.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _BrokenError(f"{where}{key}: must be an object")
    if len(value) > _MAX_ENTRIES:
        raise _BrokenError(f"{where}{key}: has more than {_MAX_ENTRIES} entries")
    return value


def _helpers_of(document: Mapping[str, Any]) -> dict[str, str]:
    programs = _mapping(document, "credHelpers")
    for key, program in programs.items():
        if not isinstance(program, str) or not program:
            raise _BrokenError(f"credHelpers[{_shown(key)}]: must be the name of a program")
    return programs


def _from_entries(
    entries: Mapping[str, Any], where: str, image: str, place: str
) -> list[Credential]:
    """Return the credentials of the entries that fit.

    Raises:
        _BrokenError: One that fits is malformed; others do not matter.
    """
    found = []
    for key in matching_keys(entries, image):
        label = f"{where}[{_shown(key)}]"
        entry = entries[key]
        if entry is None:
            continue
        if not isinstance(entry, dict):
            raise _BrokenError(f"{label}: must be an object")
        one = _credential(entry, label, place)
        if one is not None:
            found.append(one)
    return found


def _credential(entry: dict[str, Any], label: str, place: str) -> Credential | None:
    """Return what an entry says; None for one that a program has the words of."""
    words = {}
    for name in ("username", "password", "auth", "identitytoken", "registrytoken"):
        value = entry.get(name)
        if value is not None and not isinstance(value, str):
            raise _BrokenError(f"{label}.{name}: must be a string")
        words[name] = value or ""
    user, password = words["username"], words["password"]
    if words["auth"]:
        user, password = _decoded(words["auth"], label)
    if words["identitytoken"]:
        return Credential(
            user=user, identity_token=words["identitytoken"], origin=f"{place}: {label}"
        )
    if not user and not password:
        return None
    _check_header(user, label)
    return Credential(user=user, password=password, origin=f"{place}: {label}")


def _decoded(auth: str, label: str) -> tuple[str, str]:
    try:
        text = decode_base64(auth.strip(), padded=False).decode()
    except (UndecodableError, UnicodeDecodeError):
        _refuse(f"{label}.auth: is not base64 of user:password")
    user, colon, password = text.partition(":")
    if not colon:
        _refuse(f"{label}.auth: has no colon between user and password")
    # Some tools end the password with zero bytes, as Docker once did.
    return user, password.rstrip("\0")


def _check_header(user: str, label: str) -> None:
    if ":" in user:
        _refuse(f"{label}.username: has a colon, which basic authentication does not allow")


def _refuse(problem: str) -> NoReturn:
    raise _BrokenError(problem) from None


def _shown(text: str) -> str:
    """Return the name of a registry, which may be anything."""
    return "".join(one if one.isprintable() else "?" for one in text[:_MAX_NAME])
