"""Read kubeconfig files: merge several, and check every field that is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from traincrew.engine.decoding import UndecodableError, decode_base64
from traincrew.engine.errors import ConfigError

_MAX_BYTES = 3 * 1024 * 1024

_SECTIONS = (("clusters", "cluster"), ("contexts", "context"), ("users", "user"))
_PATHS = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
    "context": (),
}


class Section:
    """A mapping in a kubeconfig, with its location for error messages.

    Args:
        where: Location, such as ``kubeconfig /home/a/.kube/config: users[a].user``.
        values: The mapping.
    """

    def __init__(self, where: str, values: Any) -> None:
        if not isinstance(values, Mapping):
            raise ConfigError(f"{where} must be a mapping, not {type(values).__name__}")
        self.where = where
        self.values = values

    def text(self, key: str) -> str | None:
        """Return a string; ``None`` if absent or empty."""
        value = self.values.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise ConfigError(f"{self.where}.{key} must be a string; put it in quotes")
        return value

    def required(self, key: str) -> str:
        """Return a string that must not be absent."""
        value = self.text(key)
        if value is None:
            raise ConfigError(f"{self.where}.{key} is required")
        return value

    def flag(self, key: str) -> bool:
        """Return a boolean; false if absent."""
        value = self.values.get(key)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise ConfigError(f"{self.where}.{key} must be true or false")
        return value

    def list(self, key: str) -> list[Any]:
        """Return a list; empty if absent."""
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise ConfigError(f"{self.where}.{key} must be a list")
        return value

    def section(self, key: str) -> Section | None:
        """Return a nested mapping; ``None`` if absent."""
        value = self.values.get(key)
        return None if value is None else Section(f"{self.where}.{key}", value)

    def source(self, key: str) -> bytes | Path | None:
        """Inline data (``KEY-data``, base64), which wins, or a file that must exist (``KEY``)."""
        data = self.text(f"{key}-data")
        if data is not None:
            try:
                return decode_base64(data)
            except UndecodableError as error:
                reason = str(error).removeprefix("it is ")
                raise ConfigError(f"{self.where}.{key}-data is {reason}") from error
        return self.file(key)

    def file(self, key: str) -> Path | None:
        """Return a file that must exist."""
        name = self.text(key)
        if name is None:
            return None
        path = Path(name)
        if not path.is_file():
            raise ConfigError(f"{self.where}.{key}: there is no file {path}")
        return path


def read(path: Path) -> dict[str, Any]:
    """Decode one kubeconfig file, with relative file names made absolute.

    Raises:
        ConfigError: It cannot be read, or is not a kubeconfig.
    """
    from traincrew.engine import yamlreader

    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"kubeconfig {path}: {error.strerror}") from error
    if len(content) > _MAX_BYTES:
        raise ConfigError(f"kubeconfig {path} has more than {_MAX_BYTES >> 20} MiB")
    try:
        document = yamlreader.read(content)
    except yamlreader.YamlError as error:
        raise ConfigError(yamlreader.explain(f"kubeconfig {path}", error)) from error
    if document is None:
        return {}
    return resolve(Section(f"kubeconfig {path}", document), path.parent)


def resolve(document: Section, directory: Path) -> dict[str, Any]:
    """Return a copy with absolute file names, after checking that names are unique.

    Raises:
        ConfigError: The shape is wrong.
    """
    resolved = dict(document.values)
    for plural, key in _SECTIONS:
        entries = []
        for number, entry in enumerate(document.list(plural)):
            item = Section(f"{document.where}: {plural}[{number}]", entry)
            name = item.required("name")
            body = item.section(key) or Section(item.where, {})
            values = dict(body.values)
            for field in _PATHS[key]:
                value = body.text(field)
                if value is not None:
                    values[field] = str(directory.absolute() / Path(value).expanduser())
            command = _command(body, directory)
            if command is not None:
                values["exec"] = {**values["exec"], "command": command}
            entries.append({"name": name, key: values, "where": document.where})
        resolved[plural] = entries
    return resolved


def _command(body: Section, directory: Path) -> str | None:
    """Return a plugin's command; a relative path is relative to the kubeconfig, as in client-go."""
    plugin = body.section("exec")
    command = plugin.text("command") if plugin else None
    if command is None or "/" not in command:
        return None
    return str(directory.absolute() / command)


def merge(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge kubeconfigs: for each name, and for ``current-context``, the first file wins."""
    merged: dict[str, Any] = {}
    for document in documents:
        for key, value in document.items():
            if key not in {plural for plural, _ in _SECTIONS} and not merged.get(key):
                merged[key] = value
    for plural, _ in _SECTIONS:
        names: dict[str, Any] = {}
        for document in documents:
            for entry in document.get(plural) or []:
                names.setdefault(entry["name"], entry)
        merged[plural] = list(names.values())
    return merged


def entry(document: Mapping[str, Any], plural: str, name: str, origin: str) -> Section:
    """Return the entry with this name in a resolved document.

    Raises:
        ConfigError: There is none; the message lists the names that exist.
    """
    key = dict(_SECTIONS)[plural]
    names = []
    for item in document.get(plural) or []:
        if item["name"] == name:
            return Section(f"{item['where']}: {plural}[{name}].{key}", item[key])
        names.append(item["name"])
    there = ", ".join(names) or "none"
    raise ConfigError(f"{origin}: {plural} has no entry named {name!r} (there: {there})")
