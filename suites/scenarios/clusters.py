"""The clusters the scenarios run on, and the faults that can be injected into them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.local.cluster import ClusterOptions, LocalCluster
from traincrew.local.node import NodeSpec
from traincrew.operator.kinds import INSTALLED_RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from hack.cluster import RealCluster

HERE = Path(__file__).parent
DEPLOY = HERE.parents[1] / "deploy"
NODES = ("node-1", "node-2")
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
DEFINITIONS = tuple(f"{resource.plural}.{resource.group}" for resource in INSTALLED_RESOURCES)
_CONDITIONS = "jsonpath={range .status.conditions[*]}{.type}={.status} {end}"


class Operator:
    """The operator as a process of this machine, with the administrator's rights.

    Args:
        kubeconfig: The cluster.
        log: File to which the output of every start is appended.
    """

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        self._kubeconfig = kubeconfig
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it acts once it is the leader."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "traincrew.cli", "operator"),
                    *("--kubeconfig", str(self._kubeconfig)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Cluster(ABC):
    """A cluster with the operator running on it; a context manager.

    Attributes:
        name: `embedded` or `real`.
        client: Client for the event loop of the scenarios; set by the runner.
    """

    name: str
    client: Client

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.operator: Operator

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            self._start(stack)
            self._kubectl("apply", "-f", str(DEPLOY / "0-crd.yaml"))
            self._until_established()
            self.operator = Operator(self.kubeconfig, self.directory / "operator.log")
            stack.callback(self.operator.kill)
            self.operator.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @abstractmethod
    def _start(self, stack: ExitStack) -> None:
        """Start the cluster without the operator."""

    @property
    @abstractmethod
    def kubeconfig(self) -> Path:
        """The administrator's."""

    def fragile_node(self) -> contextlib.AbstractContextManager[FragileNode]:
        """Yield a node that can be lost, for a scenario that runs alone; restore it at the end.

        Raises:
            NotImplementedError: This cluster does not support it.
        """
        raise NotImplementedError(self.name)

    @property
    def kubectl(self) -> str:
        """The program."""
        return str(Path(sys.executable).with_name("kubectl"))

    def make_client(self) -> Client:
        """Return a new client; the caller closes it."""
        return Client(load_config(str(self.kubeconfig)), user_agent="scenarios")

    def _kubectl(self, *words: str) -> str:
        return run_kubectl(self.kubectl, self.kubeconfig, *words)

    def _until_established(self) -> None:
        # Not `kubectl wait --for=condition`: it fails on a definition that has no conditions yet.
        deadline = time.monotonic() + 30
        for name in DEFINITIONS:
            while "Established=True" not in self._kubectl("get", "crd", name, "-o", _CONDITIONS):
                assert time.monotonic() < deadline, f"{name} is not established"
                time.sleep(0.05)


class Embedded(Cluster):
    """The embedded cluster: two virtual nodes on this machine."""

    name = "embedded"

    def _start(self, stack: ExitStack) -> None:
        options = ClusterOptions(
            nodes=tuple(NodeSpec(name=name) for name in NODES),
            image_catalogs=(HERE / "images.yaml",),
        )
        self._cluster = stack.enter_context(LocalCluster(options))

    @property
    def kubeconfig(self) -> Path:
        return Path(self._cluster.kubeconfig_path)


class FragileNode:
    """A node of the real cluster: kubelet, containerd, kube-proxy, shims and containers.

    Args:
        cluster: The cluster, of which it is the last node.
    """

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self._node = cluster.nodes[-1]

    @property
    def name(self) -> str:
        """The name of the Node object."""
        return self._node.name

    def lose(self) -> None:
        """Kill the pods and the components of the node, without notice."""
        self._node.kill()

    def give_up(self) -> None:
        """Taint the node as out of service, as administrators do with an unreachable machine."""
        self._cluster.kubectl("taint", "node", self.name, f"{OUT_OF_SERVICE}=off:NoExecute")

    def mend(self) -> None:
        """Restart it with its data on disk; return when it is ready."""
        self._node.start()
        self._cluster.wait()
        taints = self._cluster.kubectl("get", "node", self.name, "-o", "jsonpath={.spec.taints}")
        if OUT_OF_SERVICE in taints:
            self._cluster.kubectl("taint", "node", self.name, f"{OUT_OF_SERVICE}-")


class Real(Cluster):
    """A real Kubernetes cluster: control plane, two nodes, containers.

    Args:
        cluster: The cluster, with the images of the scenarios on its nodes.
    """

    name = "real"

    def __init__(self, cluster: RealCluster) -> None:
        super().__init__()
        self._cluster = cluster

    def _start(self, stack: ExitStack) -> None:
        pass  # it is already running

    @property
    def kubeconfig(self) -> Path:
        return self._cluster.kubeconfig

    @contextlib.contextmanager
    def fragile_node(self) -> Iterator[FragileNode]:
        node = FragileNode(self._cluster)
        try:
            yield node
        finally:
            node.mend()


def run_kubectl(program: str, kubeconfig: Path, *words: str) -> str:
    """Run kubectl and return its output.

    Raises:
        CalledProcessError: It failed.
    """
    command = [program, "--kubeconfig", str(kubeconfig), *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
