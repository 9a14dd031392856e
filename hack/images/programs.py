"""Programs in images that are built from the Go modules of the real cluster.

Each takes the place of a stage of a Dockerfile, which builds the same program where the image is
built with Docker or podman.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from hack.images import machine
from hack.images.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def key(name: str) -> str:
    """Return a fingerprint of what a program is built from: its modules, and the version of Go."""
    from hack.cluster import binaries

    return binaries.path(name).parent.name


def build(name: str, report: Callable[[str], None]) -> None:
    """Build a program unless it exists.

    Raises:
        ImageError: It cannot be built.
    """
    from hack.cluster import binaries

    try:
        binaries.build(name, report)
    except binaries.BuildFailed as error:
        raise ImageError(str(error)) from None


def context(name: str, directory: Path) -> Path:
    """Write a program that was built, and its license, into a new directory, and return that.

    Raises:
        ImageError: The license cannot be found.
    """
    from hack.cluster import binaries

    directory.mkdir(parents=True)
    try:
        license_file = binaries.license_file(name)
    except subprocess.CalledProcessError as error:
        raise ImageError(f"{name}: its license is not there: {error.stderr.strip()}") from None
    for source, target in ((binaries.path(name), name), (license_file, "LICENSE")):
        shutil.copyfile(source, directory / target)
        os.utime(directory / target, (machine.EPOCH, machine.EPOCH))
    return directory
