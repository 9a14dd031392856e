"""The base image, for machines that reach no registry of images.

Dockerfiles begin with Debian's official slim image. Here an image of that name is made by
debootstrap from the same packages, so that the same Dockerfiles build with and without a registry.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hack.images import machine

if TYPE_CHECKING:
    from hack.images.workshop import Workshop

NAME = f"docker.io/library/debian:{machine.SUITE}-slim"
COMMIT = ("--quiet", "--rm", "--identity-label=false")
FILES = Path(__file__).parent / "base"


def key() -> str:
    """A fingerprint of how the base image is made."""
    digest = hashlib.sha256(f"{NAME} {COMMIT}".encode())
    for file in sorted(FILES.iterdir()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def ensure(workshop: Workshop) -> None:
    """Make the base image unless it is there.

    Raises:
        ImageError: It cannot be made.
    """
    done = workshop.storage / f"base-{key()}"
    if done.exists():
        return
    started = time.monotonic()
    workshop.report(f"base: installing Debian {machine.SUITE} (about a minute)")
    log = workshop.directory / "base.log"
    log.unlink(missing_ok=True)
    with workshop.scratch() as directory:
        (directory / "debian.sources").write_text(machine.apt_sources())
        (directory / "machine.conf").write_text(machine.apt_settings())
        archive = directory / "root.tar"
        make = ["sh", FILES / "make.sh", machine.SUITE, machine.mirrors()["debian"]]
        workshop.run(["unshare", "--mount", *map(str, [*make, directory, archive])], log)
        container = directory.name
        workshop.buildah("from", f"--name={container}", "scratch", log=log)
        workshop.buildah("add", "--quiet", container, str(archive), "/", log=log)
        workshop.buildah("config", "--cmd=bash", container, log=log)
        workshop.buildah("commit", *COMMIT, container, NAME, log=log)
    done.touch()
    workshop.report(f"base: {NAME} is there after {time.monotonic() - started:.0f} s")
