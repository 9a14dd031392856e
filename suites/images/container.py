"""Runs programs of an image as a kubelet would: with runc, and the restricted pod security."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import uuid
from contextlib import ExitStack, contextmanager, suppress
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
        namespace: str | None = None,
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
            namespace: The name of a network namespace; it has one of its own by default.
            user: UID and GID.
            environment: Variables besides the image's.
            volumes: Directories of this machine by their path in the container.
            capabilities: What the process may do, such as `CAP_CHOWN`.
            timeout: Seconds.
        """
        with ExitStack() as stack:
            if namespace is None:
                (namespace,) = stack.enter_context(networks(1))
            process = stack.enter_context(
                self.start(
                    *command,
                    namespace=namespace,
                    user=user,
                    environment=environment,
                    volumes=volumes,
                    capabilities=capabilities,
                )
            )
            output, errors = process.communicate(timeout=timeout)
            return subprocess.CompletedProcess(command, process.returncode, output, errors)

    @contextmanager
    def start(
        self,
        *command: str,
        namespace: str,
        host: str = HOST,
        user: int = USER,
        environment: Mapping[str, str] | None = None,
        volumes: Mapping[str, Path] | None = None,
        capabilities: Sequence[str] = (),
    ) -> Iterator[subprocess.Popen[str]]:
        """Start a program in a network namespace; yield it, and kill what is left of it.

        Args:
            command: The program and its arguments.
            namespace: The name of the network namespace.
            host: The name of the host.
            user: UID and GID.
            environment: Variables besides the image's.
            volumes: Directories of this machine by their path in the container.
            capabilities: What the process may do, such as `CAP_CHOWN`.
        """
        variables = [f"{name}={value}" for name, value in (environment or {}).items()]
        mounts = [
            {"destination": inside, "type": "bind", "source": str(outside), "options": ["rbind"]}
            for inside, outside in (volumes or {}).items()
        ]
        config = self.archive.config
        with tempfile.TemporaryDirectory() as bundle:
            specification: dict[str, Any] = {
                "ociVersion": "1.0.2",
                "hostname": host,
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
                        {"type": "network", "path": f"/run/netns/{namespace}"},
                    ]
                },
            }
            Path(bundle, "config.json").write_text(json.dumps(specification))
            name = f"traincrew-images-{uuid.uuid4().hex[:8]}"
            with subprocess.Popen(
                ["runc", "run", "--bundle", bundle, name],
                env=os.environ | RUNTIME,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as process:
                try:
                    yield process
                finally:
                    while process.poll() is None:
                        # Its container would go on without runc, and may not have begun yet.
                        subprocess.run(
                            ["runc", "kill", name, "KILL"], capture_output=True, check=False
                        )
                        with suppress(subprocess.TimeoutExpired):
                            process.wait(0.5)


@contextmanager
def networks(count: int) -> Iterator[list[str]]:
    """Create network namespaces that are joined by a bridge; yield their names.

    Each has loopback, and one interface with the address that `address` says.
    """
    name = f"traincrew-images-{uuid.uuid4().hex[:8]}"
    names = [f"{name}-{number}" for number in range(count)]
    with ExitStack() as stack:
        for each in (name, *names):
            _ip("netns", "add", each)
            stack.callback(_ip, "netns", "delete", each)
        _configure(name, "link add bridge type bridge", "link set bridge up")
        for number, each in enumerate(names):
            port = f"port{number}"
            pair = f"link add {port} type veth peer name eth0 netns {each}"
            _configure(name, pair, f"link set {port} master bridge", f"link set {port} up")
            own = f"address add {address(number)}/24 dev eth0"
            _configure(each, own, "link set lo up", "link set eth0 up")
        yield names


def address(number: int) -> str:
    """Return the IPv4 address in a namespace of `networks`, by its index."""
    return f"10.77.0.{number + 1}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _configure(namespace: str, *commands: str) -> None:
    for command in commands:
        _ip("-netns", namespace, *command.split())
