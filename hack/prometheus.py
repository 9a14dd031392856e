"""Prometheus and promtool of Debian's package, unpacked: nothing is installed, nothing starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PROGRAMS = ("prometheus", "promtool")


def missing() -> list[str]:
    """Return what this machine lacks for `directory`."""
    return [
        f"{name} (a Debian system)" for name in ("apt-get", "dpkg-deb") if not shutil.which(name)
    ]


def directory() -> Path:
    """Return the directory of the programs; the package is fetched the first time.

    Raises:
        subprocess.CalledProcessError: It cannot be fetched; the message of apt-get was printed.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = base / "traincrew" / "prometheus"
    if all((place / name).exists() for name in PROGRAMS):
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        subprocess.run(["apt-get", "download", "-qq", "prometheus"], cwd=temporary, check=True)
        (package,) = Path(temporary).glob("prometheus_*.deb")
        subprocess.run(["dpkg-deb", "-x", package, temporary], check=True)
        place.mkdir(exist_ok=True)
        for name in PROGRAMS:
            (Path(temporary) / "usr" / "bin" / name).replace(place / name)
    return place
