"""The container images of upstream's tests.

Their files are those of Kubernetes' module and programs of this machine. Nothing is pulled: the
images are imported under upstream's names, into a cache of the suite's own.
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
from hack.cluster.images import File, Image, layer_of, write_images
from hack.libraries import libraries_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Files = dict[str, File | str]
    """Of an image: see `layer_of`."""

PROGRAMS = ("agnhost", "nonewprivs", "pause")
"""What is built for them: keys of `binaries.PROGRAMS`."""
_REGISTRIES = {
    "PromoterE2eRegistry": "registry.k8s.io/e2e-test-images",
    "GcRegistry": "registry.k8s.io",
}
"""By their names in the list of images."""
# The tests' scripts are written for busybox's shell, which supports more than Debian's sh and
# exports variables whose names are not valid in a shell (`data-1`), unlike Debian's busybox. bash
# does both.
_SHELL = "bash"
_NETCAT = "nc.openbsd"
_PACKAGES = {
    _SHELL: "bash",
    _NETCAT: "netcat-openbsd",
    "busybox": "busybox",
    "curl": "curl",
    "dig": "bind9-dnsutils",
    "ss": "iproute2",
}
_USERS = """\
root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/home:/bin/false
"""
_GROUPS = """\
root:x:0:
nobody:x:65534:
"""
_ENVIRONMENT = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]


def missing() -> list[str]:
    """Return the packages of programs that this machine lacks."""
    return [package for name, package in _PACKAGES.items() if shutil.which(name) is None]


def import_into(
    cache: Path, directory: Path, on_progress: Callable[[str], None] = lambda _: None
) -> None:
    """Make the images and import them.

    Args:
        cache: `TRAINCREW_CACHE` of the clusters.
        directory: For their archive.
        on_progress: Called with the progress of builds.

    Raises:
        binaries.BuildFailed: A program could not be built.
        subprocess.CalledProcessError: They could not be imported.
    """
    archive = directory / "images.tar"
    write_images(archive, _Workshop(on_progress).images())
    subprocess.run(
        [sys.executable, "-m", "traincrew.cli", "images", "import", str(archive)],
        env={**os.environ, "TRAINCREW_CACHE": str(cache)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    archive.unlink()


class _Workshop:
    """Makes the images.

    Args:
        on_progress: Called with the progress of builds.
    """

    def __init__(self, on_progress: Callable[[str], None]) -> None:
        self._programs = {name: binaries.build(name, on_progress) for name in PROGRAMS}
        module = binaries.module_directory("agnhost")
        self._sources = module / "test" / "images"
        self._names = (module / "test" / "utils" / "image" / "manifest.go").read_text()

    def images(self) -> Iterator[Image]:
        """Make one after the other."""
        server = {"Entrypoint": ["/agnhost"], "Cmd": ["test-webserver"], "Env": _ENVIRONMENT}
        shell = {"Cmd": ["sh"], "Env": _ENVIRONMENT}
        agnhost = layer_of(self._agnhost())
        yield self._image("agnhost", agnhost, {**server, "Cmd": ["pause"]})
        # For tests that only need some web server.
        yield self._image("nginx", agnhost, server)
        for name in ("nautilus", "kitten"):
            yield self._image(name, layer_of(self._demonstration(name)), server)
        yield self._image("busybox", layer_of(_shell()), shell)
        dns_client = layer_of(_shell() | _copies("/usr/bin", "dig", "getent"))
        yield self._image("glibc-dns-testing", dns_client, shell)
        # It prints its effective user, who should not be root.
        program = File(self._programs["nonewprivs"].read_bytes(), 0o6755)
        layer = layer_of({"usr/local/bin/nnp": program})
        yield self._image("nonewprivs", layer, {"Cmd": ["nnp"], "Env": _ENVIRONMENT})
        layer = layer_of({"pause": File(self._programs["pause"].read_bytes(), 0o755)})
        yield self._image("pause", layer, {"Entrypoint": ["/pause"], "User": "65535:65535"})

    def _image(self, image: str, layer: bytes, config: Mapping[str, object]) -> Image:
        return Image(self._full_names(image), layer, config)

    def _full_names(self, image: str) -> list[str]:
        """Return the names by which the tests know an image, of all its versions."""
        names = [
            f"{registry}/{image}:{version}"
            for field, registry in _REGISTRIES.items()
            for version in re.findall(rf'{field}, "{image}", "([^"]+)"', self._names)
        ]
        if not names:
            raise ValueError(f"no image of the tests is called {image}")
        return names

    def _agnhost(self) -> Files:
        """Return the files of a program with many functions, and of tools that scripts use."""
        files = _shell()
        files |= _copies("/usr/bin", "curl", "dig", "getent", "ss", _NETCAT)
        files["bin/nc"] = f"/usr/bin/{_NETCAT}"
        files |= {"agnhost": File(self._programs["agnhost"].read_bytes(), 0o755)}
        files |= {"agnhost-2": "agnhost", "uploads/": File(b"", 0o755)}
        for name in ("localhost.crt", "localhost.key"):
            files[name] = File((self._sources / "agnhost" / "porter" / name).read_bytes())
        return files

    def _demonstration(self, name: str) -> Files:
        """Return the files of a web server that serves its own, as those of the update demo."""
        files: Files = {"agnhost": File(self._programs["agnhost"].read_bytes(), 0o755)}
        # What a test looks for in such an image that is a volume.
        files["etc/os-release"] = File(b'NAME="Alpine Linux"\n')
        for each in sorted((self._sources / name / "html").iterdir()):
            files[each.name] = File(each.read_bytes())
        return files


def _shell() -> Files:
    """Return the files of busybox, with the shell that the tests' scripts need."""
    busybox = _program("busybox")
    listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True)
    files: Files = {
        "etc/passwd": File(_USERS.encode()),
        "etc/group": File(_GROUPS.encode()),
        "root/": File(b"", 0o700),
        "tmp/": File(b"", 0o1777),
        "usr/bin/env": "/bin/env",
    }
    files |= {f"bin/{name}": "/bin/busybox" for name in listed.stdout.split()}
    files |= _copies("/bin", "busybox", _SHELL)
    files["bin/sh"] = f"/bin/{_SHELL}"
    return files


def _copies(place: str, *names: str) -> Files:
    """Return programs of this machine, with the libraries that they need.

    Args:
        place: The directory of the programs.
        names: Their names.
    """
    programs = [_program(name) for name in names]
    copies = {str(library): library for library in libraries_of(programs)}
    copies |= {f"{place}/{program.name}": program for program in programs}
    return {path.lstrip("/"): File(file.read_bytes(), 0o755) for path, file in copies.items()}


def _program(name: str) -> Path:
    return Path(shutil.which(name) or name)
