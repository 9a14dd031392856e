"""The base image, for machines that reach no registry of images.

Dockerfiles begin with Debian's official slim image. Here an image of that name is made by
debootstrap from the same packages, so that the same Dockerfiles build with and without a registry.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hack.images import machine

if TYPE_CHECKING:
    from hack.images.workshop import Workshop

NAME = f"docker.io/library/debian:{machine.SUITE}-slim"
FILES = Path(__file__).parent / "base"


def key() -> str:
    """A fingerprint of how the base image is made."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
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
    workshop.report(f"base: installing Debian {machine.SUITE} (about 80 s)")
    workshop.storage.mkdir(parents=True, exist_ok=True)
    log = workshop.directory / "base.log"
    log.unlink(missing_ok=True)
    with workshop.scratch() as directory:
        root = directory / "root"
        _install(workshop, root, log)
        container = directory.name
        workshop.buildah("from", f"--name={container}", "scratch", log=log)
        workshop.buildah("add", "--quiet", container, str(root), "/", log=log)
        workshop.buildah("config", "--cmd=bash", container, log=log)
        workshop.buildah("commit", "--quiet", "--rm", container, NAME, log=log)
    done.touch()
    workshop.report(f"base: {NAME} is there after {time.monotonic() - started:.0f} s")


def _install(workshop: Workshop, root: Path, log: Path) -> None:
    """Make a root directory of Debian's smallest system, with its security updates."""
    mirror = machine.mirrors()["debian"]
    workshop.run(["debootstrap", "--variant=minbase", machine.SUITE, str(root), mirror], log)
    shutil.copy(FILES / "dpkg.conf", root / "etc/dpkg/dpkg.cfg.d/slim")
    apt = root / "etc/apt"
    shutil.copy(FILES / "apt.conf", apt / "apt.conf.d/slim")
    # debootstrap knows one archive; updates are in others.
    (apt / "sources.list").unlink()
    (apt / "sources.list.d/debian.sources").write_text(machine.apt_sources())
    (apt / "apt.conf.d/machine").write_text(machine.apt_settings())
    update = "apt-get update && apt-get -o Dpkg::Use-Pty=0 --yes upgrade"
    workshop.run(["chroot", str(root), "sh", "-c", update], log)
    # Also removes what this machine's apt was told: none of it is part of an image.
    workshop.run(["sh", str(FILES / "slim.sh"), str(root)], log)
