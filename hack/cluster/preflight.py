"""Checks whether a machine can run the cluster, before anything is started."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from hack.cluster import binaries

# The oldest Go that compiles the pinned modules.
GO = (1, 26)
CNI_PLUGINS = Path("/usr/lib/cni")
# Program -> the Debian package that brings it.
PROGRAMS = {
    "runc": "runc",
    "ip": "iproute2",
    "nft": "nftables",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "mount": "mount",
    "nsenter": "util-linux",
}
GIBIBYTE = 1 << 30
DISK_TO_BUILD = 8 * GIBIBYTE
DISK_TO_RUN = 2 * GIBIBYTE
MEMORY = 2 * GIBIBYTE


class Unavailable(Exception):
    """This machine cannot run the cluster; the message lists everything that is missing."""


def missing(*, build: bool = True) -> list[str]:
    """Return what this machine lacks, each with its fix; empty if a cluster can run here.

    Args:
        build: Also check the requirements for building the programs, unless they are built.
    """
    if platform.system() != "Linux":
        return ["Linux: containers need its kernel"]
    found = []
    if os.geteuid() != 0:
        found.append("root: network namespaces, cgroups and containers need it; run with sudo")
    packages = sorted({package for name, package in PROGRAMS.items() if not shutil.which(name)})
    if not all((CNI_PLUGINS / plugin).exists() for plugin in ("ptp", "host-local")):
        packages.append("containernetworking-plugins")
    if packages:
        found.append(f"Debian packages: apt-get install {' '.join(packages)}")
    if build and (lacking := missing_go()):
        found.append(lacking)
    found += _room(build=build)
    if not Path("/sys/fs/cgroup").is_mount() and not Path("/sys/fs/cgroup/cgroup.procs").exists():
        found.append("cgroups: /sys/fs/cgroup is not mounted")
    return found


def require(*, build: bool = True) -> None:
    """Raise an error if a cluster cannot run here.

    Raises:
        Unavailable: The message has the whole list.
    """
    lacking = missing(build=build)
    if lacking:
        lines = "\n".join(f"  - {line}" for line in lacking)
        raise Unavailable(f"a real cluster cannot run here; missing:\n{lines}")


def missing_go() -> str:
    """Return which Go this machine lacks for building programs; empty if it has one."""
    wanted = ".".join(map(str, GO))
    go = shutil.which("go")
    if go is None:
        return f"Go {wanted} or newer, on PATH: programs are built from source"
    text = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    found = re.match(r"go(\d+)\.(\d+)", text.stdout)
    if found is None or (int(found[1]), int(found[2])) < GO:
        return f"Go {wanted} or newer: {go} is {text.stdout.strip() or 'of unknown version'}"
    return ""


def _room(*, build: bool) -> list[str]:
    found = []
    cache = binaries.cache_directory()
    place = next(parent for parent in (cache, *cache.parents) if parent.exists())
    needed = DISK_TO_RUN
    if build and shutil.which("go") and binaries.unbuilt((*binaries.CONTROL_PLANE, *binaries.NODE)):
        needed = DISK_TO_BUILD
    free = shutil.disk_usage(place).free
    if free < needed:
        found.append(
            f"disk: {needed / GIBIBYTE:.0f} GiB free below {place}, there are {free / GIBIBYTE:.1f}"
        )
    available = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    if available and int(available[1]) * 1024 < MEMORY:
        found.append(
            f"memory: {MEMORY / GIBIBYTE:.0f} GiB available, "
            f"there are {int(available[1]) / (1 << 20):.1f}"
        )
    return found
