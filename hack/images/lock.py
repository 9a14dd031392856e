"""The Debian packages in the images, and the versions they were last reviewed with.

A release of Debian has one version of each package, and replaces it with security updates only. So
exact versions cannot be pinned: they would disappear. The lock file ensures that no package is
older than before, and that none is added unnoticed: such an image is not built. Newer ones are
reported.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from hack.images import catalog
from hack.images.archive import Archive
from hack.images.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from hack.images.workshop import Report

FILE = catalog.REPOSITORY / "images" / "debian-packages.lock"
HEADER = """\
# Debian packages in the images, by release, with the lowest version accepted.
# Renewed by `python -m hack.images lock`.
"""


def read() -> dict[str, dict[str, str]]:
    """Return the locked version of each package, by release of Debian."""
    found: dict[str, dict[str, str]] = {}
    for line in FILE.read_text().splitlines():
        if line.startswith("["):
            release = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            package, version = line.split(" ", 1)
            release[package] = version
    return found


def write(archives: Iterable[tuple[str, Path]]) -> None:
    """Lock the versions in images.

    Args:
        archives: The images, each with its release of Debian.
    """
    releases: dict[str, dict[str, str]] = {}
    for release, path in archives:
        found = releases.setdefault(release, {})
        for package, version in Archive(path).packages().items():
            if package not in found or older(found[package], version):
                found[package] = version
    text = HEADER
    for release, found in sorted(releases.items()):
        lines = [f"{package} {version}\n" for package, version in sorted(found.items())]
        text += f"\n[{release}]\n{''.join(lines)}"
    FILE.write_text(text)


def differences(packages: Mapping[str, str], release: str) -> list[str]:
    """Return the differences of an image's packages from the lock file; empty if there are none."""
    locked = read().get(release, {})
    return [
        f"{package} is not in {FILE.name}"
        if package not in locked
        else f"{package} is {version}, older than {locked[package]}"
        for package, version in packages.items()
        if package not in locked or older(version, locked[package])
    ]


def newer(packages: Mapping[str, str], release: str) -> list[str]:
    """Return the packages of an image that are newer than in the lock file, for people."""
    locked = read().get(release, {})
    return [
        f"{package} {locked[package]} -> {version}"
        for package, version in packages.items()
        if package in locked and older(locked[package], version)
    ]


def check(name: str, packages: Mapping[str, str], release: str, report: Report) -> None:
    """Refuse an image whose packages are not those of the lock file, and report newer ones.

    Raises:
        ImageError: A package is older, or is not in the lock file.
    """
    if found := differences(packages, release):
        raise ImageError(
            f"{name}: its Debian packages are not those that were reviewed: {'; '.join(found)}."
            " If they are to be part of it: `python -m hack.images lock`, and commit the file"
        )
    if found := newer(packages, release):
        report(
            f"{name}: newer than in {FILE.name}, as security updates are: {', '.join(found)};"
            " `python -m hack.images lock` records them"
        )


def older(version: str, other: str) -> bool:
    """Return whether a Debian version is older than another one."""
    compare = ["dpkg", "--compare-versions", version, "lt", other]
    return version != other and subprocess.run(compare, check=False).returncode == 0
