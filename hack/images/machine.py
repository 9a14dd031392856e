"""This machine's tools for building images, and its settings that a build needs.

Packages come from the same sources as this machine's own: the settings of apt and pip are read when
an image is built, mounted into the build as files, and are not part of any image.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

# Modification time of files in the build context, so that layers depend only on content.
EPOCH = 1_700_000_000
GIBIBYTE = 1 << 30
DISK = 4 * GIBIBYTE
PROGRAMS = {"buildah": "buildah", "debootstrap": "debootstrap", "mount": "mount"}
APT = Path("/etc/apt")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Settings of pip for the package index and its access.
PIP_SETTINGS = {"index-url", "extra-index-url", "trusted-host", "proxy", "cert", "timeout"}


def cache_directory() -> Path:
    """Return the directory of images and everything needed to build them."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "traincrew" / "images"


def missing() -> list[str]:
    """Return what this machine lacks, each with its fix; empty if images can be built here."""
    if not sys.platform.startswith("linux"):
        return ["Linux: images are made of Linux programs; use `docker build` here"]
    found = []
    if os.geteuid() != 0:
        found.append("root: images have files of several users; run with sudo, or `docker build`")
    packages = sorted({package for name, package in PROGRAMS.items() if not shutil.which(name)})
    if packages:
        found.append(f"Debian packages: apt-get install {' '.join(packages)}")
    if lacking := _go():
        found.append(lacking)
    if not Path(KEYRING).exists():
        found.append("Debian's keys: apt-get install debian-archive-keyring")
    if not mirrors():
        found.append(
            f"a Debian mirror: none is named in {APT}/sources.list or {APT}/sources.list.d"
        )
    place = next(path for path in (cache_directory(), *cache_directory().parents) if path.exists())
    free = shutil.disk_usage(place).free
    if free < DISK:
        found.append(
            f"disk: {DISK / GIBIBYTE:.0f} GiB free below {place}, there are {free / GIBIBYTE:.1f}"
        )
    return found


def _go() -> str:
    # Imported here: this module is used by programs without the development environment.
    from hack.cluster import binaries, preflight

    return preflight.missing_go() if binaries.unbuilt(["kubectl"]) else ""


def mirrors() -> dict[str, str]:
    """Return this machine's mirrors of Debian: ``debian`` and, if named, ``debian-security``."""
    found: dict[str, str] = {}
    files = [APT / "sources.list", *sorted((APT / "sources.list.d").glob("*"))]
    for file in files:
        if file.suffix not in {".list", ".sources"} or not file.is_file():
            continue
        for line in file.read_text().splitlines():
            for word in line.split() if re.match(r"\s*(deb\s|URIs:)", line) else ():
                address = urlsplit(word)
                archive = address.path.rstrip("/").rpartition("/")[2]
                if address.scheme and archive in {"debian", "debian-security"}:
                    found.setdefault(archive, word.rstrip("/"))
    return found if "debian" in found else {}


def apt_sources(suite: str) -> str:
    """Return the sources of a release of Debian, in the format of ``*.sources``."""
    suites = {"debian": f"{suite} {suite}-updates", "debian-security": f"{suite}-security"}
    return "\n".join(
        f"Types: deb\nURIs: {address}\nSuites: {suites[archive]}\n"
        f"Components: main\nSigned-By: {KEYRING}\n"
        for archive, address in mirrors().items()
    )


def apt_settings() -> str:
    """Return this machine's apt settings for access to archives, such as proxies."""
    dump = subprocess.run(
        ["apt-config", "dump"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return "".join(f"{line}\n" for line in dump if re.match(r'Acquire::[^"]* "[^"]', line))


def pip_settings() -> dict[str, str]:
    """Return this machine's pip settings for the package index and its access."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, str] = {}
    # The environment takes precedence over files.
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        name = name.rpartition(".")[2].replace("default-timeout", "timeout")
        if name in PIP_SETTINGS:
            found[name] = value.strip("'\"")
    return found
