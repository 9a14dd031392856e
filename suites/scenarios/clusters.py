"""The clusters the scenarios are played on, and what can be broken on them."""

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

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from hack.cluster import RealCluster

HERE = Path(__file__).parent
DEPLOY = HERE.parents[1] / "deploy"
NODES = ("node-1", "node-2")
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
CRD = "chainerjobs.kubeflow.org"
_CONDITIONS = "jsonpath={range .status.conditions[*]}{.type}={.status} {end}"


class Operator:
    """The operator as a process of this machine, with the administrator's rights.

    Args:
        kubeconfig: The cluster.
        log: Where its output goes; appended to by every start.
    """

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        self._kubeconfig = kubeconfig
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it begins to act when it has become the leader."""
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
        """End it where it stands."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Cluster(ABC):
    """A cluster with the operator running on it; a context manager.

    Attributes:
        name: `embedded` or `real`.
        client: For the event loop the scenarios play on; set by who runs that.
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
        """A node that can be lost, for a scenario that is alone; blocks until all is well again.

        Raises:
            NotImplementedError: Not on this cluster.
        """
        raise NotImplementedError(self.name)

    @property
    def kubectl(self) -> str:
        """The program."""
        return str(Path(sys.executable).with_name("kubectl"))

    def make_client(self) -> Client:
        """A new client; the caller closes it."""
        return Client(load_config(str(self.kubeconfig)), user_agent="scenarios")

    def _kubectl(self, *words: str) -> str:
        return run_kubectl(self.kubectl, self.kubeconfig, *words)

    def _until_established(self) -> None:
        # Not `kubectl wait --for=condition`: it fails on a definition without conditions, which
        # is what a definition is for its first moment.
        deadline = time.monotonic() + 30
        while "Established=True" not in self._kubectl("get", "crd", CRD, "-o", _CONDITIONS):
            assert time.monotonic() < deadline, f"{CRD} is not established"
            time.sleep(0.05)


class Embedded(Cluster):
    """The cluster traincrew brings along: two virtual nodes over this machine."""

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
        cluster: Whose last node it is.
    """

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self._node = cluster.nodes[-1]

    @property
    def name(self) -> str:
        """Of the Node object."""
        return self._node.name

    def lose(self) -> None:
        """Kill what runs there and what runs it; nobody is told."""
        self._node.kill()

    def give_up(self) -> None:
        """Say that the machine is off, as people do of one that is not heard of any more."""
        self._cluster.kubectl("taint", "node", self.name, f"{OUT_OF_SERVICE}=off:NoExecute")

    def mend(self) -> None:
        """Start it again, with what it had on disk; return when it is ready."""
        self._node.start()
        self._cluster.wait()
        taints = self._cluster.kubectl("get", "node", self.name, "-o", "jsonpath={.spec.taints}")
        if OUT_OF_SERVICE in taints:
            self._cluster.kubectl("taint", "node", self.name, f"{OUT_OF_SERVICE}-")


class Real(Cluster):
    """Kubernetes itself: control plane, two nodes, containers.

    Args:
        cluster: It, with the images of the scenarios on its nodes.
    """

    name = "real"

    def __init__(self, cluster: RealCluster) -> None:
        super().__init__()
        self._cluster = cluster

    def _start(self, stack: ExitStack) -> None:
        pass  # whoever made it has started it

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
    """What kubectl prints.

    Raises:
        CalledProcessError: It failed.
    """
    command = [program, "--kubeconfig", str(kubeconfig), *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
