"""What this machine has for building images, and its settings that a build needs.

Packages come from wherever this machine gets its own: apt's mirror and pip's index are read when an
image is built, handed to the build as files mounted into it, and are not part of any image.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

GIBIBYTE = 1 << 30
DISK = 4 * GIBIBYTE
PROGRAMS = {"buildah": "buildah", "debootstrap": "debootstrap", "mount": "mount"}
APT = Path("/etc/apt")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Settings of pip that say where packages come from, and how to get there.
PIP_SETTINGS = {"index-url", "extra-index-url", "trusted-host", "proxy", "cert", "timeout"}


def cache_directory() -> Path:
    """Where images and everything for building them are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "traincrew" / "images"


def missing() -> list[str]:
    """What this machine lacks, each with its fix; empty when images can be built here."""
    if not sys.platform.startswith("linux"):
        return ["Linux: images are made of Linux programs; use `docker build` here"]
    found = []
    if os.geteuid() != 0:
        found.append("root: images have files of several users; run with sudo, or `docker build`")
    packages = sorted({package for name, package in PROGRAMS.items() if not shutil.which(name)})
    if packages:
        found.append(f"Debian packages: apt-get install {' '.join(packages)}")
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


def mirrors() -> dict[str, str]:
    """Debian's archives as this machine reaches them: ``debian``, ``debian-security`` if there."""
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
    """The sources of a release of Debian, in the format of ``*.sources``."""
    suites = {"debian": f"{suite} {suite}-updates", "debian-security": f"{suite}-security"}
    return "\n".join(
        f"Types: deb\nURIs: {address}\nSuites: {suites[archive]}\n"
        f"Components: main\nSigned-By: {KEYRING}\n"
        for archive, address in mirrors().items()
    )


def apt_settings() -> str:
    """How this machine's apt gets at archives: proxies, dates and the like."""
    dump = subprocess.run(
        ["apt-config", "dump"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return "".join(f"{line}\n" for line in dump if re.match(r'Acquire::[^"]* "[^"]', line))


def pip_settings() -> dict[str, str]:
    """Where this machine's pip gets packages from, and how."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, str] = {}
    # The environment wins over files.
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        name = name.rpartition(".")[2].replace("default-timeout", "timeout")
        if name in PIP_SETTINGS:
            found[name] = value.strip("'\"")
    return found
