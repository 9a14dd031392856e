"""A container image of a few programs of this machine, unpacked as the store does it."""

from __future__ import annotations

import shutil
from pathlib import Path

from hack.libraries import libraries_of

from traincrew.local.images import Environment, ImageRoot

__all__ = ["PROGRAMS", "image_of", "machine_layer", "written_by_shell"]

PROGRAMS = (
    "cat",
    "chmod",
    "env",
    "id",
    "ls",
    "mkdir",
    "mount",
    "readlink",
    "rm",
    "sh",
    "sleep",
    "stat",
    "touch",
)


def machine_layer(directory: Path) -> Path:
    """Make a layer of programs and the libraries that they need.

    Args:
        directory: Where to; it does not exist.
    """
    found = {path for name in PROGRAMS if (path := shutil.which(name)) is not None}
    for library in libraries_of(found):
        _copy(library, directory / str(library).lstrip("/"))
    for path in found:
        _copy(Path(path), directory / "bin" / Path(path).name)
    etc = directory / "etc"
    etc.mkdir(exist_ok=True)
    passwd = "root:x:0:0:root:/root:/bin/sh\ntrainer:x:1000:100::/home/trainer:/bin/sh\n"
    (etc / "passwd").write_text(passwd)
    (etc / "group").write_text("root:x:0:\nusers:x:100:\nrender:x:107:trainer\n")
    (directory / "srv").mkdir()
    (directory / "tmp").mkdir()
    (directory / "tmp").chmod(0o1777)
    return directory


def image_of(*layers: Path, **settings: object) -> Environment:
    """Return an image as a pull does. `settings`: attributes of the root, or of the image."""
    root = {
        name: settings.pop(name) for name in list(settings) if name in ImageRoot.__struct_fields__
    }
    base = layers[0] / "etc"
    files = {name: (base / name).read_text() for name in ("passwd", "group")} if layers else {}
    identity = f"docker.io/me/train@sha256:{'1' * 64}"
    image = ImageRoot(**{"id": identity, "layers": layers, "size": 7_000_000, **files, **root})  # type: ignore[arg-type]
    return Environment(**{"name": "me/train:7", "root": image, **settings})  # type: ignore[arg-type]


def written_by_shell(pieces: int) -> str:
    """Return a script that writes so many files of 4 MiB below `/srv`, and sleeps.

    It needs a shell and `sleep` alone: an image has no `dd`.
    """
    names = " ".join(map(str, range(pieces)))
    return (
        "x=0123456789abcdef; while [ ${#x} -lt 4000000 ]; do x=$x$x; done; "
        f"for each in {names}; do echo $x > /srv/$each; done; exec sleep 600"
    )


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
