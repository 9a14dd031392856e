"""An image of a shell whose nslookup succeeds if a name exists, as that of alpine does.

That of Debian's busybox fails if a name does not exist in each of the domains that are searched.
"""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING

from hack.cluster.images import write_image

from hack import images

if TYPE_CHECKING:
    from pathlib import Path

NAME = "docker.io/library/alpine:3.10"
"""As workers of PyTorchJobs have it, which wait for their master by nslookup."""
_PATH = "bin/sh"
# busybox prefers its own commands to those of PATH, but not to functions.
_SCRIPT = b"""\
#!/bin/busybox ash
nslookup() { busybox nslookup "$1" | grep "^Address: "; }
[ "$1" = -c ] || exit 2
eval "$2"
"""


def build(directory: Path) -> Path:
    """Write the image into a directory; returns the docker-archive."""
    target = directory / "alpine.tar"
    with tarfile.open(images.build("busybox")) as archive:
        manifest = archive.extractfile("manifest.json")
        assert manifest is not None
        (described,) = json.load(manifest)
        (name,) = described["Layers"]
        layer = archive.extractfile(name)
        assert layer is not None
        content = _with_script(layer.read())
    write_image(target, NAME, content, {"Env": ["PATH=/bin"], "User": "65532:65532"})
    return target


def _with_script(layer: bytes) -> bytes:
    """Return a layer with another shell."""
    result = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(layer)) as old,
        tarfile.open(fileobj=result, mode="w") as new,
    ):
        for entry in old:
            if entry.name != _PATH:
                new.addfile(entry, old.extractfile(entry) if entry.isreg() else None)
        script = tarfile.TarInfo(_PATH)
        script.size, script.mode = len(_SCRIPT), 0o755
        new.addfile(script, io.BytesIO(_SCRIPT))
    return result.getvalue()
