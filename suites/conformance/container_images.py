"""Real container images of upstream's tests.

Their files are those of Kubernetes' module and of this machine. Nothing is pulled: the images are
imported under upstream's names, into a cache of the suite's own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hack.cluster import binaries
from hack.cluster.images import File, layer_of, write_image
from hack.libraries import libraries_of

from .images import REGISTRY, SHELL

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAMS = ("agnhost", "nonewprivs")
"""What is built for them: keys of `binaries.PROGRAMS`."""
_PASSWD = """\
root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/home:/bin/false
"""
_GROUP = """\
root:x:0:
nobody:x:65534:
"""
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def import_into(
    cache: Path, directory: Path, on_progress: Callable[[str], None] = lambda _: None
) -> None:
    """Make the images and import them.

    Args:
        cache: `TRAINCREW_CACHE` of the clusters.
        directory: For the archives.
        on_progress: Called with the progress of builds.

    Raises:
        binaries.BuildFailed: A program could not be built.
        subprocess.CalledProcessError: An image could not be imported.
    """
    sources = binaries.module_directory("nonewprivs")
    archives = [_nonewprivs(sources, directory, on_progress)]
    archives += [_demo(sources, name, directory, on_progress) for name in ("nautilus", "kitten")]
    archives.append(_busybox(sources, directory))
    for archive in archives:
        subprocess.run(
            [sys.executable, "-m", "traincrew.cli", "images", "import", str(archive)],
            env={**os.environ, "TRAINCREW_CACHE": str(cache)},
            check=True,
            stdout=subprocess.DEVNULL,
        )


def _nonewprivs(sources: Path, directory: Path, on_progress: Callable[[str], None]) -> Path:
    """Write the image of a program that prints its effective user, who should not be root."""
    program = binaries.build("nonewprivs", on_progress)
    layer = layer_of({"usr/local/bin/nnp": File(program.read_bytes(), 0o6755)})
    archive = directory / "nonewprivs.tar"
    write_image(archive, _name(sources, "nonewprivs"), layer, {"Cmd": ["nnp"], "Env": [_PATH]})
    return archive


def _demo(sources: Path, name: str, directory: Path, on_progress: Callable[[str], None]) -> Path:
    """Write the image of a web server that serves its own files, as those of the update demo."""
    program = binaries.build("agnhost", on_progress)
    files = {"agnhost": File(program.read_bytes(), 0o755)}
    for each in sorted((sources / "test" / "images" / name / "html").iterdir()):
        files[each.name] = File(each.read_bytes())
    archive = directory / f"{name}.tar"
    config = {"Entrypoint": ["/agnhost"], "Cmd": ["test-webserver"], "Env": [_PATH]}
    write_image(archive, _name(sources, name), layer_of(files), config)
    return archive


def _busybox(sources: Path, directory: Path) -> Path:
    """Write the image of busybox: this machine's, with the shell that the tests' scripts need."""
    busybox, shell = (Path(shutil.which(name) or name) for name in ("busybox", SHELL))
    listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True)
    files: dict[str, File | str] = {
        "etc/passwd": File(_PASSWD.encode()),
        "etc/group": File(_GROUP.encode()),
        "root/": File(b"", 0o700),
        "tmp/": File(b"", 0o1777),
        "usr/bin/env": "/bin/env",
    }
    files |= {f"bin/{name}": "/bin/busybox" for name in listed.stdout.split()}
    files |= {
        f"bin/{name}": File(path.read_bytes(), 0o755)
        for name, path in (("busybox", busybox), (SHELL, shell))
    }
    files["bin/sh"] = f"/bin/{SHELL}"
    for library in libraries_of([busybox, shell]):
        files[str(library).lstrip("/")] = File(library.read_bytes(), 0o755)
    archive = directory / "busybox.tar"
    config = {"Cmd": ["sh"], "Env": [_PATH]}
    write_image(archive, _name(sources, "busybox"), layer_of(files), config)
    return archive


def _name(sources: Path, image: str) -> str:
    """Return the full name by which the tests know an image."""
    text = (sources / "test" / "utils" / "image" / "manifest.go").read_text()
    found = re.search(rf'PromoterE2eRegistry, "{image}", "([^"]+)"', text)
    if found is None:
        raise ValueError(f"{sources}/test/utils/image/manifest.go has no image {image}")
    return f"{REGISTRY}/{image}:{found[1]}"
