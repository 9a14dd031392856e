"""Devices by the Container Device Interface: what a specification adds to a container.

Format: https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md, 0.3.0 to 1.1.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from traincrew.engine import yamlreader

__all__ = ["DIRECTORIES", "CdiError", "DeviceFile", "Edits", "FileMount", "Registry", "wanted"]

DIRECTORIES = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Where specifications are; of two with one device, that of the later directory counts."""
ANNOTATION = "cdi.k8s.io/"
"""Beginning of the annotations of a pod that name devices, as containerd reads them."""

_KIND = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?"
)
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_NEEDLESS = {"chmod", "disable-device-node-modification", "enable-cuda-compat"}
"""NVIDIA's hooks for what containers have here without them."""
_MAX_BYTES = 1024 * 1024
_MAX_FILES = 100
_MAX_EDITS = 1000

Document = Mapping[str, Any]


class CdiError(ValueError):
    """A specification is wrong, or no specification has a device; the message names it."""


class DeviceFile(Struct, frozen=True):
    """A device file: `source` of this machine at `target` in the container."""

    source: str
    target: str


class FileMount(Struct, frozen=True):
    """A file or directory: `source` of this machine at `target` in the container."""

    source: str
    target: str
    read_only: bool = False


class Edits(Struct, frozen=True):
    """What devices add to a container.

    Attributes:
        variables: environment variables.
        devices: device files.
        mounts: files and directories, such as libraries of a driver.
        links: path in the container -> what the link there points to.
        libraries: directories in which programs look for libraries.
        groups: further groups of the program.
        hooks: programs of hooks that are not run here.
    """

    variables: Mapping[str, str] = {}
    devices: tuple[DeviceFile, ...] = ()
    mounts: tuple[FileMount, ...] = ()
    links: Mapping[str, str] = {}
    libraries: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()
    hooks: tuple[str, ...] = ()

    def __add__(self, other: Edits) -> Edits:
        """Return both; the later one wins."""
        return Edits(
            {**self.variables, **other.variables},
            tuple(dict.fromkeys(self.devices + other.devices)),
            tuple(dict.fromkeys(self.mounts + other.mounts)),
            {**self.links, **other.links},
            tuple(dict.fromkeys(self.libraries + other.libraries)),
            tuple(dict.fromkeys(self.groups + other.groups)),
            tuple(dict.fromkeys(self.hooks + other.hooks)),
        )


class Registry:
    """The devices of all specifications of the machine, read when they are asked for.

    Args:
        directories: with files `*.json` and `*.yaml`.
    """

    def __init__(self, directories: Sequence[Path] = DIRECTORIES) -> None:
        self._directories = directories

    def names(self, kind: str) -> list[str]:
        """Return the names of the devices of a kind, such as `nvidia.com/gpu`; possibly none.

        A specification that is wrong has no devices here; `edits` says what is wrong.
        """
        found: list[str] = []
        for path in self._files():
            try:
                specification = _read(path)
            except CdiError:
                continue
            if specification["kind"] == kind:
                found += [each["name"] for each in specification["devices"]]
        return list(dict.fromkeys(found))

    def edits(self, devices: Iterable[str]) -> Edits:
        """Return what devices add to a container.

        Args:
            devices: `VENDOR/CLASS=NAME` of each.

        Raises:
            CdiError: no specification has one of them, or its specification is wrong.
        """
        wanted_devices = list(dict.fromkeys(devices))
        if not wanted_devices:
            return Edits()
        specifications: list[tuple[Path, dict[str, Any]]] = []
        wrong: list[str] = []
        for path in reversed(self._files()):
            try:
                specifications.append((path, _read(path)))
            except CdiError as error:
                wrong.append(str(error))
        added = Edits()
        for device in wanted_devices:
            added += self._edits(device, specifications, wrong)
        return added

    def _edits(
        self,
        device: str,
        specifications: Sequence[tuple[Path, dict[str, Any]]],
        wrong: Sequence[str],
    ) -> Edits:
        kind, _, name = device.partition("=")
        for path, specification in specifications:
            if specification["kind"] != kind:
                continue
            for each in specification["devices"]:
                if each["name"] == name:
                    common = _edited(path, specification.get("containerEdits"))
                    return common + _edited(path, each.get("containerEdits"))
        where = " or ".join(str(directory) for directory in self._directories)
        refused = "".join(f"; not read: {each}" for each in wrong[:3])
        raise CdiError(
            f"unresolvable CDI device {device}: no specification in {where} has it{refused}"
        )

    def _files(self) -> list[Path]:
        found: list[Path] = []
        for directory in self._directories:
            try:
                files = sorted(directory.iterdir())
            except OSError:
                continue
            found += [path for path in files if path.suffix in {".json", ".yaml", ".yml"}]
        return found[:_MAX_FILES]


def wanted(annotations: Mapping[str, str]) -> list[str]:
    """Return the devices that annotations of a pod name: `cdi.k8s.io/ANY: KIND=NAME,...`."""
    return [
        device.strip()
        for key, value in sorted(annotations.items())
        if key.startswith(ANNOTATION)
        for device in value.split(",")
        if device.strip()
    ]


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise CdiError(f"{path}: it has more than {_MAX_BYTES >> 20} MiB")
        found = yamlreader.read(data)
    except OSError as error:
        raise CdiError(f"{path}: {error.strerror}") from None
    except yamlreader.YamlError as error:
        raise CdiError(yamlreader.explain(str(path), error)) from None
    specification = _object(path, "", found)
    kind = specification.get("kind")
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise CdiError(f"{path}: kind: must be VENDOR/CLASS, such as nvidia.com/gpu")
    devices = _list(path, "devices", specification)
    for index, device in enumerate(devices):
        at = f"devices[{index}]"
        name = _object(path, at, device).get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise CdiError(f"{path}: {at}.name: must be a name of letters, digits and _.:-")
    return {**specification, "devices": devices}


def _edited(path: Path, value: Any) -> Edits:
    """Return the `containerEdits` of a specification or of one of its devices."""
    edits = _object(path, "containerEdits", {} if value is None else value)
    variables = {}
    for index, text in enumerate(_list(path, "env", edits)):
        name, equals, content = _text(path, f"env[{index}]", text).partition("=")
        if not name or not equals:
            raise CdiError(f"{path}: containerEdits.env[{index}]: must be NAME=VALUE")
        variables[name] = content
    devices = []
    for index, node in enumerate(_list(path, "deviceNodes", edits)):
        target = _path(path, f"deviceNodes[{index}].path", node)
        source = node.get("hostPath") or target
        devices.append(DeviceFile(_text(path, f"deviceNodes[{index}].hostPath", source), target))
    mounts = []
    for index, mount in enumerate(_list(path, "mounts", edits)):
        target = _path(path, f"mounts[{index}].containerPath", mount)
        source = _path(path, f"mounts[{index}].hostPath", mount)
        mounts.append(FileMount(source, target, "ro" in _list(path, "options", mount)))
    groups = _list(path, "additionalGids", edits)
    added = Edits(
        variables=variables,
        devices=tuple(devices),
        mounts=tuple(mounts),
        groups=tuple(each for each in groups if isinstance(each, int) and each > 0),
    )
    return added + _hooked(path, edits)


def _hooked(path: Path, edits: Document) -> Edits:
    """Return what the hooks of `containerEdits` would do: no program of a specification is run."""
    links: dict[str, str] = {}
    libraries: list[str] = []
    hooks: list[str] = []
    for index, hook in enumerate(_list(path, "hooks", edits)):
        field = f"hooks[{index}]"
        program = _text(path, f"{field}.path", _object(path, field, hook).get("path"))
        arguments = [_text(path, f"{field}.args", each) for each in _list(path, "args", hook)]
        if "create-symlinks" in arguments:
            links |= _links(arguments)
        elif "update-ldcache" in arguments:
            libraries += _values(arguments, "--folder")
        elif not _NEEDLESS & set(arguments):
            hooks.append(program)
    return Edits(links=links, libraries=tuple(libraries), hooks=tuple(hooks))


def _links(arguments: Sequence[str]) -> dict[str, str]:
    """Return the links of NVIDIA's hook `create-symlinks --link TARGET::PATH`."""
    pairs = (each.partition("::") for each in _values(arguments, "--link"))
    return {path: target for target, _, path in pairs if path.startswith("/") and target}


def _values(arguments: Sequence[str], option: str) -> Iterator[str]:
    for number, argument in enumerate(arguments):
        if argument == option and number + 1 < len(arguments):
            yield arguments[number + 1]
        elif argument.startswith(f"{option}="):
            yield argument.partition("=")[2]


def _object(path: Path, field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CdiError(f"{path}: {field or 'it'}: must be an object")
    return value


def _list(path: Path, field: str, holder: Mapping[str, Any]) -> list[Any]:
    value = holder.get(field)
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > _MAX_EDITS:
        raise CdiError(f"{path}: {field}: must be a list of at most {_MAX_EDITS} entries")
    return value


def _text(path: Path, field: str, value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise CdiError(f"{path}: {field}: must be a text")
    return value


def _path(path: Path, field: str, holder: Any) -> str:
    where, _, key = field.rpartition(".")
    value = _text(path, field, _object(path, where, holder).get(key))
    if not value.startswith("/") or ".." in value.split("/"):
        raise CdiError(f"{path}: {field}: must be an absolute path")
    return value
