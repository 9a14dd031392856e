"""What this machine lets pods have, found by trying it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.local.node.addresses import can_use

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Capabilities", "Capability", "capabilities_from", "count_gpus", "detect"]

_SANDBOX = Path(__file__).parent / "sandbox"
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_MAXIMUM = Path("/proc/sys/user/max_user_namespaces")


class Capability(Struct, frozen=True):
    """Something pods can have here, or not.

    Attributes:
        name: what, for people.
        available: whether.
        reason: why not, or what it means.
        fix: what would change that; empty if nothing would.
    """

    name: str
    available: bool
    reason: str = ""
    fix: str = ""


class Capabilities(Struct, frozen=True):
    """What this machine lets pods have.

    Attributes:
        namespaces: own file system, processes, host name and mounts ("bare" mode where not).
        user_namespace: these need a user namespace of their own.
        overlay: directories of the machine are privately writable in pods.
        addresses: every pod has an address of its own.
        reason: why there are no namespaces, or no overlays.
    """

    namespaces: bool
    user_namespace: bool = False
    overlay: bool = False
    addresses: bool = False
    reason: str = ""

    @property
    def mode(self) -> str:
        """`namespaces` or `bare`."""
        return "namespaces" if self.namespaces else "bare"

    def explain(self) -> list[Capability]:
        """One line per capability."""
        how = "as root" if not self.user_namespace else "by user namespaces, no root needed"
        return [
            Capability(
                "pods have their own file system, processes and host name",
                self.namespaces,
                how if self.namespaces else self.reason,
                "" if self.namespaces else _namespace_fix(),
            ),
            Capability(
                "pods may write to the machine's directories, privately",
                self.overlay,
                "by overlays that are thrown away with the pod" if self.overlay else self.reason,
                "" if self.overlay else "Linux 5.11 or newer",
            ),
            Capability(
                "every pod has its own address",
                self.addresses,
                "in 127.0.0.0/8" if self.addresses else "only 127.0.0.1 can be used",
                "" if self.addresses else "pods that listen need ports of their own",
            ),
            Capability(
                "ports below 1024 can be listened on",
                _low_ports(),
                "" if _low_ports() else "this user may not",
                "" if _low_ports() else "sysctl net.ipv4.ip_unprivileged_port_start=0",
            ),
            Capability("GPUs", count_gpus() > 0, f"{count_gpus()} found by nvidia-smi"),
        ]


def _namespace_fix() -> str:
    if sys.platform != "linux":
        return "a Linux machine or virtual machine"
    if _read(_APPARMOR) == "1":
        return "sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    if _read(_MAXIMUM) == "0":
        return "sysctl user.max_user_namespaces=10000"
    return "allow user namespaces (in a container: run it privileged), or run as root"


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _low_ports() -> bool:
    if os.geteuid() == 0:
        return True
    return _read(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")) in {"0", "1"}


def count_gpus() -> int:
    """The NVIDIA GPUs of this machine; 0 without `nvidia-smi`."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    try:
        result = subprocess.run(
            [program, "-L"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in result.stdout.splitlines())


def capabilities_from(answer: Mapping[str, Any]) -> Capabilities:
    """The capabilities, from what `sandbox.server.check` found."""
    return Capabilities(**answer, addresses=can_use("127.42.0.1"))


def detect() -> Capabilities:
    """Find out what works, by building a sandbox and throwing it away (0.1 s)."""
    with tempfile.TemporaryDirectory() as directory:
        result = subprocess.run(
            [sys.executable, "-I", "-S", str(_SANDBOX), "check", directory],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    if result.returncode != 0:
        reason = result.stderr.strip().rpartition("\n")[2] or "the check failed"
        return Capabilities(namespaces=False, reason=reason)
    return capabilities_from(json.loads(result.stdout))
