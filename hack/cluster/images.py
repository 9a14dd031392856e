"""Container images without a registry: docker-archive tar files.

Format: https://github.com/moby/docker-image-spec/blob/main/spec.md#combined-image-json--filesystem-changeset-format
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING

from hack.cluster import binaries

if TYPE_CHECKING:
    from collections.abc import Mapping
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
    layer = _tar({inside: program.read_bytes()}, mode=0o755)
    write_image(target, name, layer, {"Entrypoint": [f"/{inside}"], "User": "65535:65535"})


def write_image(target: Path, name: str, layer: bytes, config: Mapping[str, object]) -> None:
    """Write an image with one layer.

    Args:
        target: The file to write.
        name: The full name, with registry and tag: ``docker.io/traincrew/busybox:1``.
        layer: A tar of the root directory.
        config: Container configuration: ``Entrypoint``, ``Env``, ``User`` …
    """
    configuration = json.dumps({
        "architecture": "amd64",
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }).encode()  # fmt: skip
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    target.write_bytes(_tar({
        "config.json": configuration,
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest).encode(),
    }))  # fmt: skip


def _tar(files: Mapping[str, bytes], *, mode: int = 0o644) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
