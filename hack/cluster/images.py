"""Container images without a registry: docker-archive tar files.

Format: https://github.com/moby/docker-image-spec/blob/main/spec.md#combined-image-json--filesystem-changeset-format
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hack.cluster import binaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

PAUSE = "docker.io/traincrew/pause:1"


def pause_image(directory: Path) -> Path:
    """Create the image of the process that holds a pod's namespaces."""
    target = directory / "pause.tar"
    if not target.exists():
        program_image(target, PAUSE, binaries.path("pause"), "pause")
    return target


def program_image(target: Path, name: str, program: Path, inside: str) -> None:
    """Write an image that has one static program, and runs it as a user without rights.

    Args:
        target: The file to write.
        name: The full name, with registry and tag.
        program: The program.
        inside: Its name in the root directory of the image.
    """
    layer = layer_of({inside: File(program.read_bytes(), 0o755)})
    write_image(target, name, layer, {"Entrypoint": [f"/{inside}"], "User": "65535:65535"})


class Image(NamedTuple):
    """An image of an archive.

    Attributes:
        names: Full names, with registry and tag: ``docker.io/traincrew/busybox:1``.
        layer: A tar of the root directory; a file if it is large.
        config: Container configuration: ``Entrypoint``, ``Env``, ``User`` …
        architecture: In Go's words: ``arm64``.
    """

    names: list[str]
    layer: bytes | Path
    config: Mapping[str, object]
    architecture: str = "amd64"


def write_image(
    target: Path,
    name: str,
    layer: bytes | Path,
    config: Mapping[str, object],
    *,
    architecture: str = "amd64",
) -> None:
    """Write an archive of one image. Arguments: see `Image`."""
    write_images(target, [Image([name], layer, config, architecture)])


def write_images(target: Path, images: Iterable[Image]) -> None:
    """Write an archive of images that have one layer each.

    Args:
        target: The file to write.
        images: They may share layers.
    """
    listed: list[dict[str, object]] = []
    layers: set[str] = set()
    with tarfile.open(target, "w") as archive:
        for image in images:
            with _opened(image.layer) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                if digest not in layers:
                    _add(archive, f"{digest}.tar", file)
                    layers.add(digest)
            configuration = {
                "architecture": image.architecture,
                "os": "linux",
                "config": dict(image.config),
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            }
            config = f"{len(listed)}.json"
            _add(archive, config, io.BytesIO(json.dumps(configuration).encode()))
            listed.append({"Config": config, "RepoTags": image.names, "Layers": [f"{digest}.tar"]})
        _add(archive, "manifest.json", io.BytesIO(json.dumps(listed).encode()))


def _opened(layer: bytes | Path) -> io.BytesIO | io.BufferedReader:
    return io.BytesIO(layer) if isinstance(layer, bytes) else layer.open("rb")


def _add(archive: tarfile.TarFile, name: str, file: io.BytesIO | io.BufferedReader) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = file.seek(0, io.SEEK_END)
    file.seek(0)
    archive.addfile(entry, file)


@dataclass(frozen=True, slots=True)
class File:
    """A file or directory of a layer, which is root's.

    Attributes:
        content: What is in it; nothing for a directory.
        mode: Its permissions, with the set-user-ID bits.
    """

    content: bytes
    mode: int = 0o644


def layer_of(entries: Mapping[str, File | str]) -> bytes:
    """Return a layer as a tar.

    Args:
        entries: Files, and the targets of symbolic links, by their paths without the first slash.
            A path with a slash at the end is a directory.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, found in entries.items():
            entry = tarfile.TarInfo(path)
            if isinstance(found, str):
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, found, 0o777
                archive.addfile(entry)
            else:
                entry.type = tarfile.DIRTYPE if path.endswith("/") else tarfile.REGTYPE
                entry.size, entry.mode = len(found.content), found.mode
                archive.addfile(entry, io.BytesIO(found.content))
    return buffer.getvalue()
