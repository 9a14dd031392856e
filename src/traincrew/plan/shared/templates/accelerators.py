"""What containers that use an accelerator are given: volumes, mounts and environment variables.

The configuration is that of mxnet-operator's ``--controller_config_file``. Kubernetes' device
plugins make most of it unnecessary: they add devices and libraries to a container by themselves.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from traincrew.plan.shared.templates.podtemplate import (
    Document,
    add_env,
    add_mounts,
    map_containers,
    with_volumes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CONTAINER = "mxnet"
"""Name of the container that uses the accelerators; others are left alone."""

_QUALIFIED_NAME = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
_VOLUME_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_VARIABLE_NAME = re.compile(r"[ -<>-~]+")
_LONGEST_NAME = 317
"""Characters of a resource name: a prefix of 253, a slash, and a name of 63."""


class Volume(Struct, frozen=True):
    """A directory or file of the node that is shown in the container.

    Attributes:
        name: Name of the pod's volume.
        host_path: Its path on the node.
        mount_path: Its path in the container.
    """

    name: str
    host_path: str
    mount_path: str


class Accelerator(Struct, frozen=True):
    """What a container is given that uses a resource.

    Attributes:
        volumes: Paths of the node, each mounted into the container.
        variables: Environment variables, by name.
    """

    volumes: tuple[Volume, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()


class Accelerators(Struct, frozen=True):
    """The accelerators by the name of their resource, such as ``nvidia.com/gpu``."""

    by_resource: tuple[tuple[str, Accelerator], ...] = ()


NO_ACCELERATORS = Accelerators()
"""Nothing is added to any container."""


# -- templates --------------------------------------------------------------------------------


def apply(template: Document, accelerators: Accelerators) -> Document:
    """Return a pod template whose container `CONTAINER` has what its accelerators need.

    An accelerator counts if the container's limits or requests name its resource. Volumes, mounts
    and variables are added after the user's; a volume, mount or variable that exists under the same
    name is kept instead, and so is whatever is mounted at the same path. To apply it twice is to
    apply it once.

    Args:
        template: A pod template with ``spec``; it is not modified.
        accelerators: The configuration.
    """
    used: dict[str, Volume] = {}

    def equipped(container: Document) -> Document:
        if container.get("name") != CONTAINER:
            return container
        resources = _resources(container)
        for name, accelerator in accelerators.by_resource:
            if name not in resources:
                continue
            # Of two paths of the node under one name, the first in the file is shown.
            volumes = [
                volume
                for volume in accelerator.volumes
                if used.setdefault(volume.name, volume).host_path == volume.host_path
            ]
            container = _equipped(container, volumes, dict(accelerator.variables))
        return container

    template = map_containers(template, equipped)
    present = {volume.get("name") for volume in template["spec"].get("volumes") or []}
    mounted = {
        mount.get("name")
        for container in template["spec"].get("containers") or []
        for mount in container.get("volumeMounts") or []
    }
    added = [
        {"name": volume.name, "hostPath": {"path": volume.host_path}}
        for volume in used.values()
        if volume.name in mounted - present
    ]
    return with_volumes(template, added) if added else template


def _resources(container: Document) -> set[str]:
    resources = container.get("resources") or {}
    return {*(resources.get("limits") or {}), *(resources.get("requests") or {})}


def _equipped(container: Document, volumes: list[Volume], variables: Mapping[str, str]) -> Document:
    mounts = container.get("volumeMounts") or []
    names = {mount.get("name") for mount in mounts}
    paths = {mount.get("mountPath") for mount in mounts}
    added = []
    for volume in volumes:
        if volume.name in names or volume.mount_path in paths:
            continue
        names.add(volume.name)
        paths.add(volume.mount_path)
        added.append({"name": volume.name, "mountPath": volume.mount_path})
    if added:
        container = add_mounts(container, added)
    return add_env(container, variables) if variables else container


# -- the configuration file -------------------------------------------------------------------

T = TypeVar("T")


def parse(document: Any) -> Accelerators:
    """Parse the document of a configuration file; keys may be in upper or lower case, as in Go.

    Args:
        document: The file's YAML, with numbers and booleans as text, because the values of
            variables are used as they are written. None is an empty file.

    Raises:
        ValueError: A field is missing, unknown or wrong; the message names it and the fix.
    """
    top = _fields(document, "", ("accelerators",))
    found = _mapping(top.get("accelerators"), "accelerators")
    accelerators = []
    for name, fields in found.items():
        where = f"accelerators[{name}]"
        if not _QUALIFIED_NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
            raise ValueError(
                f"{where}: not the name of a resource; write it as in a container's limits, for"
                " example nvidia.com/gpu"
            )
        accelerators.append((name, _accelerator(fields, where)))
    return Accelerators(tuple(accelerators))


def _accelerator(document: Any, where: str) -> Accelerator:
    fields = _fields(document, where, ("volumes", "envVars"))
    volumes = tuple(_entries(fields.get("volumes"), f"{where}.volumes", _volume))
    variables = tuple(_entries(fields.get("envVars"), f"{where}.envVars", _variable))
    _all_different(f"{where}.volumes", "name", [volume.name for volume in volumes])
    _all_different(f"{where}.volumes", "mountPath", [volume.mount_path for volume in volumes])
    _all_different(f"{where}.envVars", "name", [name for name, _ in variables])
    return Accelerator(volumes, variables)


def _volume(document: Any, where: str) -> Volume:
    fields = _fields(document, where, ("name", "hostPath", "mountPath"))
    name = _text(fields, where, "name", "nvidia-libraries")
    if not _VOLUME_NAME.fullmatch(name):
        raise ValueError(
            f"{where}.name: {name!r} is not the name of a volume; write at most 63 lower case"
            " letters, digits and '-', for example nvidia-libraries"
        )
    return Volume(
        name,
        _path(fields, where, "hostPath"),
        _path(fields, where, "mountPath"),
    )


def _path(fields: Mapping[str, Any], where: str, key: str) -> str:
    path = _text(fields, where, key, "/usr/local/nvidia")
    if not path.startswith("/"):
        raise ValueError(f"{where}.{key}: {path!r} is relative; write a path that begins with /")
    if ".." in path.split("/"):
        raise ValueError(f"{where}.{key}: {path!r} contains '..'; write the path without it")
    if key == "mountPath" and ":" in path:
        raise ValueError(f"{where}.{key}: {path!r} contains ':'; choose a path without it")
    return path


def _variable(document: Any, where: str) -> tuple[str, str]:
    fields = _fields(document, where, ("name", "value"))
    name = _text(fields, where, "name", "LD_LIBRARY_PATH")
    if not _VARIABLE_NAME.fullmatch(name):
        raise ValueError(
            f"{where}.name: {name!r} is not the name of a variable; write printable ASCII"
            " characters without '=', for example LD_LIBRARY_PATH"
        )
    value = fields.get("value")
    if value is not None and not isinstance(value, str):
        raise _unexpected(f"{where}.value", value, "a text")
    return name, value or ""


def _fields(document: Any, where: str, known: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a mapping under the spelling of `known`."""
    spelling = {key.lower(): key for key in known}
    fields: dict[str, Any] = {}
    for key, value in _mapping(document, where).items():
        name = spelling.get(key.lower())
        path = f"{where}.{key}" if where else key
        if name is None:
            raise ValueError(f"{path}: unknown field; there are {', '.join(known)}")
        if name in fields:
            raise ValueError(f"{path}: the second {name} there; keep one of them")
        fields[name] = value
    return fields


def _mapping(document: Any, where: str) -> dict[str, Any]:
    """Return a mapping with texts as keys; one that is left empty has no entries."""
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise _unexpected(
            where or "the document",
            document,
            "a mapping (key: value)" if where else "a mapping with the key accelerators",
        )
    for key in document:
        if not isinstance(key, str):
            raise _unexpected(f"{where or 'the document'}, a key", key, "a text")
    return document


def _entries(document: Any, where: str, read: Callable[[Any, str], T]) -> Iterator[T]:
    if document is None:
        return
    if not isinstance(document, list):
        raise _unexpected(where, document, "a list; begin each entry with '-'")
    for number, entry in enumerate(document):
        yield read(entry, f"{where}[{number}]")


def _text(fields: Mapping[str, Any], where: str, key: str, example: str) -> str:
    value = fields.get(key)
    if value is None or value == "":
        raise ValueError(f"{where}.{key}: missing; write for example {key}: {example}")
    if not isinstance(value, str):
        raise _unexpected(f"{where}.{key}", value, "a text")
    return value


def _all_different(where: str, key: str, values: list[str]) -> None:
    seen: set[str] = set()
    for number, value in enumerate(values):
        if value in seen:
            raise ValueError(f"{where}[{number}].{key}: {value!r} occurs twice; keep one of them")
        seen.add(value)


def _unexpected(where: str, value: Any, expected: str) -> ValueError:
    """Return the error for a value of another type, in the words of YAML."""
    found = {dict: "a mapping", list: "a list", type(None): "nothing"}.get(
        type(value), f"{value!r}"
    )
    return ValueError(f"{where}: {found} instead of {expected}")
