"""Detection of the isolation that this machine allows for pods."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.local.node import sandbox
from traincrew.local.node.machine.imageusers import usable_ids
from traincrew.local.node.machine.loopback import can_use
from traincrew.local.subordinate import NoSubordinateIdsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "Capabilities",
    "Capability",
    "NamespacesUnavailableError",
    "capabilities_from",
    "count_gpus",
    "detect",
    "namespace_fix",
]

_SANDBOX = Path(sandbox.__file__).parent
_SETTINGS = (
    # (setting, value that forbids user namespaces, value that allows them)
    ("user.max_user_namespaces", "0", "10000"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)
_CONTAINER_FIX = (
    "docker run (or podman run) with --security-opt seccomp=unconfined"
    " --security-opt apparmor=unconfined; in Kubernetes securityContext"
    " {seccompProfile: {type: Unconfined}, appArmorProfile: {type: Unconfined}}"
)
_PROC_FIX = (
    "docker run (or podman run) with --security-opt systempaths=unconfined;"
    " in Kubernetes securityContext {procMount: Unmasked}"
)


class Capability(Struct, frozen=True):
    """A capability of this machine, available or not.

    Attributes:
        name: description for users.
        available: whether pods have it.
        reason: why not, or how it is provided.
        fix: what would make it available; empty if nothing would.
        essential: whether training jobs cannot run without it.
    """

    name: str
    available: bool
    reason: str = ""
    fix: str = ""
    essential: bool = False


class NamespacesUnavailableError(OSError):
    """Pods cannot be isolated on this machine; the message names the reason and a fix."""


class Capabilities(Struct, frozen=True):
    """The isolation that this machine allows for pods.

    Attributes:
        namespaces: own file system, processes, host name and mounts ("bare" mode where not).
        user_namespace: the other namespaces have to be created inside a user namespace.
        overlay: directories of the machine are writable in pods, by copy on write.
        own_proc: `/proc` of a pod shows its processes, not the machine's.
        addresses: every pod has an address of its own.
        reason: why namespaces or overlays are unavailable.
        ports_reason: why pods have no ports of their own; empty if they have.
    """

    namespaces: bool
    user_namespace: bool = False
    overlay: bool = False
    own_proc: bool = False
    addresses: bool = False
    reason: str = ""
    ports_reason: str = ""

    @property
    def own_ports(self) -> bool:
        """Whether two pods can listen on the same port of the wildcard address."""
        return self.namespaces and self.addresses and not self.ports_reason

    @property
    def why_no_own_ports(self) -> str:
        """Why pods have no ports of their own; empty if they have."""
        if not self.namespaces:
            return self.reason
        if not self.addresses:
            return "pods have no addresses of their own"
        return self.ports_reason

    @property
    def _why_no_own_proc(self) -> str:
        if not self.namespaces:
            return self.reason
        return "parts of /proc are hidden here, so the kernel refuses another: a container's?"

    @property
    def mode(self) -> str:
        """`namespaces` or `bare`."""
        return "namespaces" if self.namespaces else "bare"

    def refusal(self) -> str:
        """Return the message that refuses to start without isolation, with the fix."""
        return (
            "pods cannot be isolated on this machine, so they would lack the files of their images,"
            f" their mounts and the names of other pods: {self.reason}\nfix: {namespace_fix()}\n"
            "(--sandbox bare starts pods as plain processes: jobs of one pod can run so)"
        )

    def explain(self) -> Iterator[Capability]:
        """Yield one item per capability, each as soon as it is known."""
        how = "as root" if not self.user_namespace else "by user namespaces, no root needed"
        yield Capability(
            "pods have their own file system, processes and host name",
            self.namespaces,
            how if self.namespaces else self.reason,
            "" if self.namespaces else namespace_fix(),
            essential=True,
        )
        yield from (
            Capability(
                "pods may write to the machine's directories, privately",
                self.overlay,
                "by overlays that are discarded with the pod" if self.overlay else self.reason,
                "" if self.overlay or not self.namespaces else "Linux 5.11 or newer",
            ),
            Capability(
                "pods see their own processes only",
                self.own_proc,
                "in a /proc of their own" if self.own_proc else self._why_no_own_proc,
                "" if self.own_proc or not self.namespaces else _PROC_FIX,
            ),
            Capability(
                "every pod has its own address",
                self.addresses,
                "in 127.0.0.0/8" if self.addresses else "only 127.0.0.1 can be used",
                "" if self.addresses else "pods that listen need ports of their own",
            ),
            Capability(
                "pods may listen on the same ports",
                self.own_ports,
                "bind and connect are translated to the pod's address"
                if self.own_ports
                else self.why_no_own_ports,
                "" if self.own_ports else "give pods that run together different ports",
            ),
            Capability(
                "ports below 1024 can be listened on",
                _low_ports(),
                "" if _low_ports() else "this user may not",
                "" if _low_ports() else "sysctl net.ipv4.ip_unprivileged_port_start=0",
            ),
        )
        if self.user_namespace and self.overlay:
            yield _image_users()
        gpus = gpu_names()
        found = f"{len(gpus)} found by nvidia-smi"
        kinds = ", ".join(dict.fromkeys(gpus))
        yield Capability("GPUs", bool(gpus), f"{found}: {kinds}" if kinds else found)


def _image_users() -> Capability:
    name = "root in a container image has other users"
    try:
        found = usable_ids()
    except NoSubordinateIdsError as error:
        return Capability(name, available=False, reason=error.reason, fix=error.fix)
    except OSError as error:
        return Capability(name, available=False, reason=str(error))
    return Capability(name, available=True, reason=f"{found.users - 1} subordinate IDs")


def namespace_fix(proc: Path = Path("/proc"), platform: str = sys.platform) -> str:
    """Return the command or setting that would allow namespaces here.

    Args:
        proc: Mount point of procfs.
        platform: As `sys.platform`.
    """
    if platform != "linux":
        return "use a Linux machine or virtual machine"
    changes = [
        f"{name}={allowed}"
        for name, forbidden, allowed in _SETTINGS
        if _read(proc / "sys" / name.replace(".", "/")) == forbidden
    ]
    fixes = [f"sudo sysctl -w {' '.join(changes)}"] if changes else []
    # A seccomp filter is active: those of container engines refuse new namespaces.
    if re.search(r"^Seccomp:\s*2$", _read(proc / "self/status"), re.MULTILINE):
        where = "on the host: " if changes else ""
        fixes = [f"{where}{fix}" for fix in fixes]
        fixes.append(f"start this container by {_CONTAINER_FIX}")
    return "; and ".join(fixes) or (
        "allow user namespaces, or run as root (a container: with --privileged)"
    )


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
    """Return the number of NVIDIA GPUs of this machine; 0 without `nvidia-smi`."""
    return len(gpu_names())


def gpu_names() -> list[str]:
    """Return the models of this machine's NVIDIA GPUs; none without `nvidia-smi`."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        result = subprocess.run(
            [program, "-L"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = (line for line in result.stdout.splitlines() if line.startswith("GPU "))
    return [line.partition(": ")[2].partition(" (UUID")[0] for line in lines]


def capabilities_from(answer: Mapping[str, Any]) -> Capabilities:
    """Return the capabilities, from the result of `sandbox.server.check`."""
    return Capabilities(**answer, addresses=can_use("127.42.0.1"))


def detect() -> Capabilities:
    """Detect the capabilities by creating and discarding a sandbox (0.1 s)."""
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
