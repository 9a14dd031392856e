"""runc containers over this machine's own files, with the default privileges of engines."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Document = dict[str, Any]

PROJECT = Path(__file__).parents[1]
HOME = "/home/traincrew-suite"
# A cache below the home of another user is refused, so root has one of its own.
HOME_OF_ROOT = "/home/traincrew-root"
# The default capabilities of Docker, containerd and CRI-O.
CAPABILITIES = [
    f"CAP_{name}"
    for name in (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
        *("NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
]
MASKED = ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi",
          "/sys/firmware"]  # fmt: skip
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
_NEW_NAMESPACES = 0x7E020000


def seccomp() -> Document:
    """Return the part of the engines' default filter that concerns namespaces and mounts."""
    refused = [
        *("mount", "umount2", "pivot_root", "setns", "unshare", "fsopen", "fsmount", "move_mount"),
        *("open_tree", "mount_setattr", "bpf", "keyctl", "add_key", "request_key"),
    ]
    flags = [1 << bit for bit in range(32) if _NEW_NAMESPACES & 1 << bit]
    error = {"action": "SCMP_ACT_ERRNO", "errnoRet": 1}
    masked = [
        {"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"} for flag in flags
    ]
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [
            {"names": refused, **error},
            *({"names": ["clone"], "args": [argument], **error} for argument in masked),
            # Its flags are in memory, which a filter cannot read: libraries then use clone.
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
        ],
    }


class Containers:
    """Containers that run one after the other on the same files.

    Args:
        directory: The bundle, with the root file system mounted at `rootfs`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = directory / "rootfs"

    def run(
        self, command: str, *, uid: int, filtered: bool, cwd: str = "/", timeout: float = 560
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command; return its output and errors together.

        Args:
            command: For `/bin/sh`.
            uid: UID and GID. Root has the default capabilities of engines.
            filtered: Whether the engines' default seccomp filter is active (runc's default: no).
            cwd: Directory in the container.
            timeout: Seconds.
        """
        specification = self._specification(command, cwd, uid, filtered)
        (self.directory / "config.json").write_text(json.dumps(specification))
        name = f"traincrew-suite-{os.getpid()}"
        try:
            return subprocess.run(
                ["runc", "run", "--bundle", self.directory, name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=timeout,
                check=False,
            )
        finally:
            subprocess.run(["runc", "delete", "--force", name], capture_output=True, check=False)

    def _specification(self, command: str, cwd: str, uid: int, filtered: bool) -> Document:
        # Variables that configure access to a package index.
        index = ("PIP_", "UV_", "SSL_CERT_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
        variables = {name: value for name, value in os.environ.items()
                     if name.upper().startswith(index)}  # fmt: skip
        home = HOME if uid else HOME_OF_ROOT
        variables |= {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home}
        capabilities = CAPABILITIES if uid == 0 else []
        granted = dict.fromkeys(("bounding", "effective", "permitted"), capabilities)
        linux: Document = {
            # The network is the machine's: packages come from an index.
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
        }
        if filtered:
            linux["seccomp"] = seccomp()
        return {
            "ociVersion": "1.0.2",
            "hostname": "container",
            "root": {"path": "rootfs"},
            "process": {
                "user": {"uid": uid, "gid": uid},
                "args": ["/bin/sh", "-c", command],
                "cwd": cwd,
                "env": [f"{name}={value}" for name, value in variables.items()],
                "capabilities": granted,
                "noNewPrivileges": False,
            },
            "mounts": _SYSTEM_MOUNTS,
            "linux": linux,
        }


_SYSTEM_MOUNTS: list[Document] = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
     "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
    {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
     "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]},
    {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
     "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]},
    {"destination": "/sys", "type": "bind", "source": "/sys",
     "options": ["rbind", "nosuid", "noexec", "nodev", "ro"]},
]  # fmt: skip


@contextlib.contextmanager
def containers(directory: Path) -> Iterator[Containers]:
    """Yield containers whose root is an overlay of this machine's; it is removed afterwards."""
    root = directory / "rootfs"
    layers = directory / "layers"
    for path in (root, layers):
        path.mkdir(parents=True)
    # A tmpfs: an overlay cannot be the upper layer of another one.
    subprocess.run(["mount", "-t", "tmpfs", "traincrew-suite", layers], check=True)
    try:
        for name in ("upper", "work"):
            (layers / name).mkdir()
        options = f"lowerdir=/,upperdir={layers}/upper,workdir={layers}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, root], check=True)
        try:
            yield Containers(directory)
        finally:
            subprocess.run(["umount", root], check=True)
    finally:
        subprocess.run(["umount", layers], check=True)
        shutil.rmtree(directory)


def copy_project(target: Path, owner: int) -> None:
    """Copy the tracked files, owned by a user."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=True
    ).stdout
    for name in filter(None, os.fsdecode(listed).split("\0")):
        source = PROJECT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    for path in (target.parent, target, *target.rglob("*")):
        os.chown(path, owner, owner)
