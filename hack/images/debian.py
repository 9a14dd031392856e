"""Base images, for machines that cannot reach an image registry.

Dockerfiles begin with one of Debian's official slim images. Here an image with that name is created
by debootstrap from the same packages, so the same Dockerfiles build with and without a registry.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hack.images import machine

if TYPE_CHECKING:
    from hack.images.workshop import Workshop

COMMIT = ("--quiet", "--rm", "--identity-label=false")
FILES = Path(__file__).parent / "base"


def name(suite: str) -> str:
    """Return the name of the base image of a release of Debian in Dockerfiles."""
    return f"docker.io/library/debian:{suite}-slim"


def key(suite: str) -> str:
    """Return a fingerprint of how a base image is created."""
    digest = hashlib.sha256(f"{name(suite)} {COMMIT}".encode())
    for file in sorted(FILES.iterdir()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def ensure(workshop: Workshop, suite: str) -> None:
    """Create the base image of a release of Debian unless it exists.

    Raises:
        ImageError: It cannot be created.
    """
    done = workshop.storage / f"base-{key(suite)}"
    if done.exists():
        return
    started = time.monotonic()
    workshop.report(f"base: installing Debian {suite} (about a minute)")
    log = workshop.directory / "base.log"
    log.unlink(missing_ok=True)
    with workshop.scratch() as directory:
        (directory / "debian.sources").write_text(machine.apt_sources(suite))
        (directory / "machine.conf").write_text(machine.apt_settings())
        archive = directory / "root.tar"
        make = ["sh", FILES / "make.sh", suite, machine.mirrors()["debian"]]
        workshop.run(["unshare", "--mount", *map(str, [*make, directory, archive])], log)
        container = directory.name
        workshop.buildah("from", f"--name={container}", "scratch", log=log)
        workshop.buildah("add", "--quiet", container, str(archive), "/", log=log)
        workshop.buildah("config", "--cmd=bash", container, log=log)
        workshop.buildah("commit", *COMMIT, container, name(suite), log=log)
    done.touch()
    workshop.report(f"base: {name(suite)} is there after {time.monotonic() - started:.0f} s")
