"""Runs programs of an image as a kubelet would: with runc, and the restricted pod security."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hack.images.archive import Archive

# The user of the image; and one without a passwd entry, as on clusters that assign each namespace a
# UID range of its own.
USER = 65532
ARBITRARY_USER = 1_000_670_000
HOST = "job-master-x7k2p"

_MOUNTS = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]},
    {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["mode=1777"]},
    {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"]},
    {"destination": "/tmp", "type": "tmpfs", "source": "tmp", "options": ["mode=1777"]},
]

# In the foreground runc forwards every signal it gets, even those (SIGURG) of Go's scheduler within
# runc. On a cluster runc does not stay in the foreground.
RUNTIME = {"GODEBUG": "asyncpreemptoff=1"}


@dataclass(frozen=True)
class Container:
    """An image, unpacked.

    Attributes:
        root: Its files.
        archive: The image.
    """

    root: Path
    archive: Archive

    def file(self, path: str) -> Path:
        """Return the path on this machine of a file of the image."""
        return self.root / path.lstrip("/")

    def run(
        self,
        *command: str,
        user: int = USER,
        environment: Mapping[str, str] | None = None,
        volumes: Mapping[str, Path] | None = None,
        capabilities: Sequence[str] = (),
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program; return its result.

        The root file system is read-only except /tmp, there are no capabilities but those given and
        no way to gain any, and the network is one interface without a peer host.

        Args:
            command: The program and its arguments.
            user: UID and GID.
            environment: Variables besides the image's.
            volumes: Directories of this machine by their path in the container.
            capabilities: What the process may do, such as `CAP_CHOWN`.
            timeout: Seconds.
        """
        variables = [f"{name}={value}" for name, value in (environment or {}).items()]
        mounts = [
            {"destination": inside, "type": "bind", "source": str(outside), "options": ["rbind"]}
            for inside, outside in (volumes or {}).items()
        ]
        config = self.archive.config
        name = f"traincrew-images-{uuid.uuid4().hex[:8]}"
        with network(name) as namespace, tempfile.TemporaryDirectory() as bundle:
            specification: dict[str, Any] = {
                "ociVersion": "1.0.2",
                "hostname": HOST,
                "root": {"path": str(self.root), "readonly": True},
                "mounts": [*_MOUNTS, *mounts],
                "process": {
                    "user": {"uid": user, "gid": user},
                    "args": list(command),
                    # The last one of a name counts.
                    "env": [*config.get("Env", []), *variables],
                    "cwd": config.get("WorkingDir") or "/",
                    "capabilities": {
                        kind: list(capabilities) for kind in ("bounding", "effective", "permitted")
                    },
                    "noNewPrivileges": True,
                },
                "linux": {
                    "namespaces": [
                        *({"type": kind} for kind in ("pid", "ipc", "uts", "mount")),
                        {"type": "network", "path": str(namespace)},
                    ]
                },
            }
            Path(bundle, "config.json").write_text(json.dumps(specification))
            return subprocess.run(
                ["runc", "run", "--bundle", bundle, name],
                env=os.environ | RUNTIME,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout,
            )


@contextmanager
def network(name: str) -> Iterator[Path]:
    """Create a network namespace with loopback and one more interface; yield its path."""
    commands = (
        "link set lo up",
        "link add eth0 type veth peer name far",
        "address add 10.77.0.1/24 dev eth0",
        "link set far up",
        "link set eth0 up",
    )
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        for command in commands:
            subprocess.run(["ip", "-netns", name, *command.split()], check=True)
        yield Path("/run/netns", name)
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)
