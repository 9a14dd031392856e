"""A node: kubelet, containerd and kube-proxy in a network namespace of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hack.cluster import binaries
from hack.cluster.control_plane import DOMAIN, NODE_MISSED_SECONDS
from hack.cluster.images import PAUSE, pause_image
from hack.cluster.network import inside
from hack.cluster.preflight import CNI_PLUGINS
from hack.cluster.processes import NotReady, Process

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hack.cluster.certificates import Authority
    from hack.cluster.control_plane import ControlPlane
    from hack.cluster.network import Network

CGROUPS = Path("/sys/fs/cgroup")
PROGRAMS = ("containerd", "kubelet", "kube-proxy")


@dataclass(frozen=True)
class Node:
    """One node of a cluster; nodes are numbered from 1.

    Its name is ``node-1``, ``node-2`` …
    """

    index: int
    network: Network
    control_plane: ControlPlane

    @property
    def name(self) -> str:
        """The name of the Node object."""
        return f"node-{self.index}"

    @property
    def directory(self) -> Path:
        """The directory of the node's data."""
        return self.control_plane.directory / "nodes" / self.name

    @property
    def socket(self) -> Path:
        """The socket of its containerd."""
        return self.directory / "containerd.sock"

    def process(self, program: str) -> Process:
        """Return one of its processes: ``containerd``, ``kubelet`` or ``kube-proxy``."""
        logs = self.control_plane.directory / "logs"
        name = f"{self.name}-{program}"
        return Process(name, self.control_plane.directory / "processes", logs / f"{name}.log")

    # -- life cycle -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start its processes, with the command lines and the data of the previous start.

        Raises:
            NotReady: containerd did not become ready.
        """
        for cgroup in self._cgroups():
            cgroup.mkdir(exist_ok=True)
            _enable_controllers(cgroup)
        containerd = self.process("containerd")
        containerd.start(self._containerd())
        containerd.wait(self._runtime_ready, 120)
        self.load([pause_image(self.control_plane.directory)])
        self.process("kubelet").start(self._kubelet())
        self.process("kube-proxy").start(self._kube_proxy())

    def stop(self) -> None:
        """Stop its processes and containers; its data stays."""
        for program in reversed(PROGRAMS):
            self.process(program).stop()
        self._end_containers()

    def kill(self) -> None:
        """Crash the node: kill its processes and everything in its containers at once."""
        for program in PROGRAMS:
            self.process(program).kill()
        self._end_containers()

    def cut(self) -> None:
        """Disconnect the node: it keeps running, but cannot be reached."""
        self.network.cut(self.index)

    def mend(self) -> None:
        """Reconnect the node."""
        self.network.mend(self.index)

    def load(self, images: Iterable[Path]) -> None:
        """Import images, docker-archive or OCI tar files.

        Raises:
            NotReady: containerd refused one; the message is containerd's.
        """
        for image in images:
            self._images("import", "--no-unpack=false", str(image))

    def name_image(self, image: str, names: Iterable[str]) -> None:
        """Give an image that was loaded more names.

        Args:
            image: Its full name, with registry and tag.
            names: As full as that.

        Raises:
            NotReady: containerd has no such image.
        """
        self._images("tag", "--force", image, *names)

    def _images(self, command: str, *arguments: str) -> None:
        ctr = [str(binaries.path("ctr")), "-a", str(self.socket), "-n", "k8s.io"]
        result = subprocess.run(
            [*ctr, "images", command, *arguments], capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            words = " ".join((command, *arguments))
            raise NotReady(f"{self.name}: images {words}: {result.stderr.strip()}")

    def clean(self) -> None:
        """Remove its cgroups; nothing may run on it any more."""
        for cgroup in self._cgroups():
            for directory, _, _ in os.walk(cgroup, topdown=False):
                with contextlib.suppress(OSError):
                    Path(directory).rmdir()

    def _runtime_ready(self) -> bool:
        command = [str(binaries.path("ctr")), "-a", str(self.socket), "version"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    # -- containers -----------------------------------------------------------------------

    @property
    def _cgroup(self) -> str:
        return f"{self.network.control_plane}-{self.name}"

    def _cgroups(self) -> list[Path]:
        """Return the node's group in every hierarchy: one with cgroup v2, about ten with v1."""
        if (CGROUPS / "cgroup.controllers").exists():
            return [CGROUPS / self._cgroup]
        hierarchies = [path for path in CGROUPS.iterdir() if path.is_mount()]
        return [path / self._cgroup for path in hierarchies]

    def _end_containers(self) -> None:
        """Kill the shims, identified by their containerd's socket, and all they started."""
        deadline = time.monotonic() + 20
        while pids := self._container_pids():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise NotReady(f"{self.name}: processes {pids} do not end")
            time.sleep(0.05)

    def _container_pids(self) -> list[int]:
        pids: set[int] = set()
        for cgroup in self._cgroups():
            for directory, _, files in os.walk(cgroup):
                if "cgroup.procs" in files:
                    with contextlib.suppress(OSError):
                        pids.update(map(int, Path(directory, "cgroup.procs").read_text().split()))
        own = str(self.directory).encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    line = (entry / "cmdline").read_bytes()
                    if b"containerd-shim" in line and own in line:
                        pids.add(int(entry.name))
        return [pid for pid in pids if _alive(pid)]

    # -- files and commands ---------------------------------------------------------------

    def write(self, authority: Authority) -> None:
        """Write its configuration and its certificate."""
        self.directory.mkdir(parents=True, exist_ok=True)
        user = f"system:node:{self.name}"
        self.control_plane.write_client(authority, self.name, user, "system:nodes")
        server = authority.server(
            f"{self.name}-kubelet", [self.network.node_address(self.index)], [self.name]
        )
        # The only name server of pods; other names are not resolved.
        (self.directory / "resolv.conf").write_text(f"nameserver {self.network.address}\n")
        (self.directory / "containerd.toml").write_text(self._containerd_configuration())
        cni = self.directory / "cni"
        cni.mkdir(exist_ok=True)
        self._json(cni / "10-pods.conflist", {
            "cniVersion": "1.0.0",
            "name": "pods",
            "plugins": [{
                "type": "ptp",
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(self.directory / "addresses"),
                    "ranges": [[{"subnet": self.network.pods_of(self.index)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            }],
        })  # fmt: skip
        self._json(self.directory / "kubelet.json", {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.network.node_address(self.index),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(authority.certificate)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(server.certificate),
            "tlsPrivateKeyFile": str(server.key),
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "clusterDNS": [self.network.address],
            "clusterDomain": DOMAIN,
            "resolvConf": str(self.directory / "resolv.conf"),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            "evictionHard": {},
            "enforceNodeAllocatable": [],
            "oomScoreAdj": 0,
            "protectKernelDefaults": False,
            "podLogsDir": str(self.directory / "pod-logs"),
            "nodeStatusUpdateFrequency": "2s",
            "nodeLeaseDurationSeconds": NODE_MISSED_SECONDS,
            "syncFrequency": "10s",
            "imageMinimumGCAge": "24h",
            "registerNode": True,
        })  # fmt: skip
        self._json(self.directory / "kube-proxy.json", {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clusterCIDR": self.network.pod_range,
            "hostnameOverride": self.name,
            "conntrack": {"maxPerCore": 0, "min": 0},
            "clientConnection": {
                "kubeconfig": str(self.control_plane.directory / "kube-proxy.kubeconfig")
            },
        })  # fmt: skip

    @staticmethod
    def _json(path: Path, document: object) -> None:
        path.write_text(json.dumps(document, indent=1))

    def _containerd_configuration(self) -> str:
        runtime = "plugins.'io.containerd.cri.v1.runtime'"
        runc = f"[{runtime}.containerd.runtimes.runc"
        return f"""\
version = 3
root = "{self.directory / "containerd"}"
state = "{self.directory / "state"}"
[grpc]
address = "{self.socket}"
[ttrpc]
address = "{self.socket}.ttrpc"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE}"
[{runtime}]
disable_apparmor = true
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[{runtime}.cni]
bin_dirs = ["{CNI_PLUGINS}"]
conf_dir = "{self.directory / "cni"}"
{runc}]
runtime_type = "io.containerd.runc.v2"
{runc}.options]
SystemdCgroup = false
"""

    def _containerd(self) -> list[str]:
        binary = binaries.path("containerd")
        configuration = str(self.directory / "containerd.toml")
        # The shim is searched on PATH; programs of one module share a directory, so it is beside
        # containerd.
        environment = ["env", f"PATH={binary.parent}:{os.environ.get('PATH', os.defpath)}"]
        return inside(
            self.network.node(self.index),
            [*environment, str(binary), "--config", configuration, "--log-level", "warn"],
        )

    def _kubelet(self) -> list[str]:
        directory = self.control_plane.directory
        return inside(
            self.network.node(self.index),
            [
                str(binaries.path("kubelet")),
                f"--config={self.directory / 'kubelet.json'}",
                f"--kubeconfig={directory / f'{self.name}.kubeconfig'}",
                f"--root-dir={self.directory / 'kubelet'}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.network.node_address(self.index)}",
            ],
        )

    def _kube_proxy(self) -> list[str]:
        return inside(
            self.network.node(self.index),
            [
                str(binaries.path("kube-proxy")),
                f"--config={self.directory / 'kube-proxy.json'}",
            ],
        )


def _enable_controllers(cgroup: Path) -> None:
    """Enable the controllers in a node's group (cgroup v2)."""
    available = CGROUPS / "cgroup.controllers"
    if available.exists():
        wanted = " ".join(f"+{name}" for name in available.read_text().split())
        for group in (CGROUPS, cgroup):
            (group / "cgroup.subtree_control").write_text(wanted)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
