"""The Debian packages in the images, and the versions they were last judged with.

Debian keeps one version of a package in a release, and replaces it with security updates only. So
an exact version cannot be asked for: it would stop being there. What can be held is that nothing is
older than it was, and that no package comes in unnoticed.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from hack.images import catalog
from hack.images.archive import Archive

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

FILE = catalog.REPOSITORY / "images" / "debian-packages.lock"
HEADER = """\
# Debian packages in the images, by release, with the lowest version accepted.
# Renewed by `python -m hack.images lock`.
"""


def read() -> dict[str, dict[str, str]]:
    """The locked version of each package, by release of Debian."""
    found: dict[str, dict[str, str]] = {}
    for line in FILE.read_text().splitlines():
        if line.startswith("["):
            release = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            package, version = line.split(" ", 1)
            release[package] = version
    return found


def write(archives: Iterable[tuple[str, Path]]) -> None:
    """Lock the versions that images have.

    Args:
        archives: Each with the release of Debian it is made of.
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
    """Say what about the packages of an image is not as locked; empty when all is well."""
    locked = read().get(release, {})
    return [
        f"{package} is not in {FILE.name}"
        if package not in locked
        else f"{package} is {version}, older than {locked[package]}"
        for package, version in packages.items()
        if package not in locked or older(version, locked[package])
    ]


def older(version: str, other: str) -> bool:
    """Whether a Debian version comes before another one."""
    compare = ["dpkg", "--compare-versions", version, "lt", other]
    return version != other and subprocess.run(compare, check=False).returncode == 0
