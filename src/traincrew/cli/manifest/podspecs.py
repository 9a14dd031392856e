"""Finds pod specs in manifests of any kind, with their volumes and volume mounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_READ_ONLY = ("configMap", "secret", "downwardAPI", "projected")


class MountPath(NamedTuple):
    """One entry of ``volumeMounts``.

    Attributes:
        field: Its path in the manifest.
        volume: The name of the volume.
        path: The mount path as written.
        kind: ``read-only`` for volumes that contain API objects, else ``writable``.
    """

    field: str
    volume: str
    path: str
    kind: str


def resolve_host_paths(content: Any, directory: Path) -> None:
    """Make relative paths of ``hostPath`` volumes absolute, in place.

    Those of PersistentVolumes as well, which may also have a ``local`` path.

    A path with ``..`` is left unchanged, and refused by the API server.
    """
    sources = [
        volume.get("hostPath")
        for _, spec in _pod_specs(content)
        for volume in _dictionaries(spec.get("volumes"))
    ]
    if isinstance(content, dict) and content.get("kind") == "PersistentVolume":
        spec = content.get("spec")
        if isinstance(spec, dict):
            sources += [spec.get("hostPath"), spec.get("local")]
    for source in sources:
        if not isinstance(source, dict):
            continue
        path = source.get("path")
        if isinstance(path, str) and path and ".." not in path.split("/"):
            source["path"] = str(directory / path)


def mount_paths(content: Any) -> Iterator[MountPath]:
    """Yield every volume mount of a manifest."""
    for field, spec in _pod_specs(content):
        read_only = {
            volume.get("name")
            for volume in _dictionaries(spec.get("volumes"))
            if any(source in volume for source in _READ_ONLY)
        }
        for group in ("initContainers", "containers"):
            for number, container in enumerate(_dictionaries(spec.get(group))):
                for index, mount in enumerate(_dictionaries(container.get("volumeMounts"))):
                    name, path = mount.get("name"), mount.get("mountPath")
                    if isinstance(name, str) and isinstance(path, str) and path:
                        place = f"{field}.{group}[{number}].volumeMounts[{index}].mountPath"
                        kind = "read-only" if name in read_only else "writable"
                        yield MountPath(place.lstrip("."), name, path, kind)


def _pod_specs(content: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every dictionary with a list of containers; each only once if YAML repeats it."""
    seen: set[int] = set()
    rest: list[tuple[str, Any]] = [("", content)]
    while rest:
        field, value = rest.pop()
        if not isinstance(value, dict | list) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            if isinstance(value.get("containers"), list):
                yield field, value
            rest += [(f"{field}.{key}".lstrip("."), item) for key, item in value.items()]
        else:
            rest += [(f"{field}[{index}]", item) for index, item in enumerate(value)]


def _dictionaries(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
