"""Reads built images in the docker-archive format.

https://github.com/moby/docker-image-spec/blob/main/spec.md#combined-image-json--filesystem-changeset-format
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from email.parser import HeaderParser
from functools import cached_property
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
        identity: The image ID of container runtimes, ``sha256:...``: the digest of that
            configuration, also in the manifest of an image that was pushed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with tarfile.open(path) as file:
            manifest = json.load(_member(file, "manifest.json"))[0]
            configuration = _member(file, manifest["Config"]).read()
        self.document: dict[str, Any] = json.loads(configuration)
        self.identity = f"sha256:{hashlib.sha256(configuration).hexdigest()}"
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

    def content(self, path: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: There is none.
        """
        for layer in reversed(list(self._layers)):
            with tarfile.open(self.path) as file, tarfile.open(fileobj=_member(file, layer)) as tar:
                for entry in tar:
                    if PurePosixPath("/", entry.name) == PurePosixPath(path) and entry.isfile():
                        return _member(tar, entry.name).read()
        raise FileNotFoundError(f"{self.path}: has no file {path}")

    def packages(self) -> dict[str, str]:
        """Return the versions of its Debian packages, as recorded by Debian for image scanners."""
        found = {}
        for path, text in self._records.items():
            for paragraph in text.split("\n\n") if "/dpkg/" in path else ():
                fields = dict(
                    line.split(": ", 1) for line in paragraph.splitlines() if ": " in line[:40]
                )
                if "Package" in fields:
                    found[fields["Package"]] = fields["Version"]
        return found

    def python_packages(self) -> dict[str, str]:
        """Return the versions of its Python packages, except those of Debian packages."""
        found = {}
        for path, text in self._records.items():
            if path.endswith(".dist-info/METADATA"):
                about = HeaderParser().parsestr(text, headersonly=True)
                found[str(about["Name"])] = str(about["Version"])
        return found

    @cached_property
    def _records(self) -> dict[str, str]:
        """The files of package managers that say what is installed, by their paths."""
        texts: dict[str, str] = {}
        for layer in self.layers():
            for entry in layer:
                path = PurePosixPath("/", entry.name)
                if path.name.startswith(WHITEOUT):
                    _forget(texts, path)
                elif _is_record(path) and entry.isfile() and (content := layer.extractfile(entry)):
                    texts[str(path)] = content.read().decode()
        return texts


def _is_record(path: PurePosixPath) -> bool:
    debian = str(path) == "/var/lib/dpkg/status" or path.match("dpkg/status.d/*")
    return debian or (
        path.match("*.dist-info/METADATA") and not path.is_relative_to("/usr/lib/python3")
    )


def _forget(texts: dict[str, str], whiteout: PurePosixPath) -> None:
    """Remove the files that a layer removes."""
    gone = whiteout.parent
    if whiteout.name != OPAQUE:
        gone = whiteout.with_name(whiteout.name.removeprefix(WHITEOUT))
    for path in [path for path in texts if PurePosixPath(path).is_relative_to(gone)]:
        del texts[path]


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
