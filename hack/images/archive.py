"""Reads built images in the docker-archive format.

https://github.com/moby/docker-image-spec/blob/main/spec.md#combined-image-json--filesystem-changeset-format
"""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import IO

# An entry with this prefix removes the file with that name from lower layers.
WHITEOUT = ".wh."
# This one removes everything in its directory from lower layers.
OPAQUE = ".wh..wh..opq"


class Archive:
    """An image in a file.

    Args:
        path: File returned by `build`.

    Attributes:
        config: Configuration of containers: ``User``, ``Env``, ``Entrypoint``, ``Labels`` …
        document: The image's whole configuration, with the history of its layers.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with tarfile.open(path) as file:
            manifest = json.load(_member(file, "manifest.json"))[0]
            self.document: dict[str, Any] = json.load(_member(file, manifest["Config"]))
        self.names: list[str] = manifest["RepoTags"]
        self.config: dict[str, Any] = self.document["config"]
        self._layers: list[str] = manifest["Layers"]

    def layers(self) -> Iterator[tarfile.TarFile]:
        """Yield the layers, the lowest first."""
        with tarfile.open(self.path) as file:
            for name in self._layers:
                with tarfile.open(fileobj=_member(file, name)) as layer:
                    yield layer

    def unpack(self, root: Path) -> None:
        """Write the image's files into a directory, with their owners; needs root."""
        for layer in self.layers():
            for entry in layer:
                path = root / entry.name
                if path.name == OPAQUE:
                    for old in path.parent.iterdir():
                        _remove(old)
                elif path.name.startswith(WHITEOUT):
                    _remove(path.with_name(path.name.removeprefix(WHITEOUT)))
            members = [entry for entry in layer if not _name(entry).startswith(WHITEOUT)]
            layer.extractall(root, members, filter="fully_trusted")

    def packages(self) -> dict[str, str]:
        """Return the versions of its Debian packages, as recorded by Debian for image scanners."""
        texts: dict[str, str] = {}
        for layer in self.layers():
            for entry in layer:
                path = PurePosixPath("/", entry.name)
                recorded = str(path) == "/var/lib/dpkg/status" or path.match("dpkg/status.d/*")
                if recorded and entry.isfile() and (content := layer.extractfile(entry)):
                    texts[str(path)] = content.read().decode()
        found = {}
        for text in texts.values():
            for paragraph in text.split("\n\n"):
                fields = dict(
                    line.split(": ", 1) for line in paragraph.splitlines() if ": " in line[:40]
                )
                if "Package" in fields:
                    found[fields["Package"]] = fields["Version"]
        return found


def _name(entry: tarfile.TarInfo) -> str:
    return PurePosixPath(entry.name).name


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _member(file: tarfile.TarFile, name: str) -> IO[bytes]:
    member = file.extractfile(name)
    assert member is not None
    return member
