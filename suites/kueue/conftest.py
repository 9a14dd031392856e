"""A cluster with Kueue, unmodified, as its own manifests install it; and an operator to kill."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hack.cluster import binaries
from suites.conftest import REQUIRE
from suites.operators.modules import sources
from suites.shell import Document, User

from traincrew.local.cluster import default_cache
from traincrew.operator.kinds import RESOURCES

HERE = Path(__file__).parent
KUEUE = "sigs.k8s.io/kueue"
SYSTEM = ("--namespace", "kueue-system")
DEPLOYMENT = "deployment/kueue-controller-manager"
LABEL = "kueue.x-k8s.io/queue-name"
WORKLOADS = "workloads.kueue.x-k8s.io"
API = "kueue.x-k8s.io/v1beta2"


PLURALS = {each.kind: f"{each.plural}.{each.group}" for each in reversed(RESOURCES)}


class Queues(User):
    """Somebody who uses queues on a cluster of two nodes."""

    operator: "subprocess.Popen[bytes] | None" = None

    def start_operator(self) -> None:
        """Start our operator."""
        with (self.home / "operator.log").open("ab") as log:
            self.operator = subprocess.Popen(
                [
                    *("traincrew", "operator", f"--kubeconfig={self.kubeconfig}"),
                    "--leader-elect-lease-duration=3s",
                    "--leader-elect-renew-deadline=2s",
                    "--leader-elect-retry-period=1s",
                ],
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill_operator(self) -> None:
        """Kill it, so that it can tidy nothing up."""
        assert self.operator is not None
        self.operator.send_signal(signal.SIGKILL)
        self.operator.wait()

    def log(self) -> str:
        """The logs of the cluster and of the operator."""
        path = self.home / "operator.log"
        return f"{super().log()}\n{path.read_text() if path.exists() else ''}"

    def state(self) -> str:
        """Workloads and jobs as well."""
        kinds = ",".join((WORKLOADS, *PLURALS.values()))
        return f"{self.kubectl('get', kinds, '-o', 'yaml', code=None)}\n{super().state()}"

    # -- queues -------------------------------------------------------------------------------

    def flavor(self, name: str, **spec: Any) -> None:
        """Create a flavor."""
        self._kueue("ResourceFlavor", name, spec)

    def cluster_queue(self, name: str, cpu: str, flavor: str = "any", **spec: Any) -> None:
        """Create a queue with a quota of processors, and its LocalQueue of the same name."""
        resources = [{"name": "cpu", "nominalQuota": cpu}]
        group = {
            "coveredResources": ["cpu"],
            "flavors": [{"name": flavor, "resources": resources}],
        }
        self._kueue(
            "ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group], **spec}
        )
        self._kueue("LocalQueue", name, {"clusterQueue": name}, namespace="default")

    def priority(self, name: str, value: int) -> None:
        """Create a class of priority."""
        self.apply(
            {
                "apiVersion": API,
                "kind": "WorkloadPriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )

    def _kueue(self, kind: str, name: str, spec: Document, **metadata: str) -> None:
        document = {
            "apiVersion": API,
            "kind": kind,
            "metadata": {"name": name, **metadata},
            "spec": spec,
        }
        self.apply(document)

    # -- jobs ---------------------------------------------------------------------------------

    def job(self, kind: str, name: str) -> Document:
        """A job as it is stored."""
        return self.get(PLURALS[kind], name)

    def holds(self, kind: str, name: str, condition: str) -> bool:
        """Whether a condition of a job is true."""
        found = self.job(kind, name).get("status", {}).get("conditions", ())
        return any(each["type"] == condition and each["status"] == "True" for each in found)

    def until_holds(self, kind: str, name: str, condition: str, seconds: float = 60) -> None:
        """Wait until a condition of a job is true."""
        text = f"{name} is {condition}"
        self.until(text, lambda: self.holds(kind, name, condition), seconds)

    def reason(self, kind: str, name: str) -> tuple[str, str]:
        """Why a job has no pods, and the same for people."""
        status = self.job(kind, name).get("status", {})
        found = {each["type"]: each for each in status.get("conditions", ())}
        held = found.get("Suspended", {"reason": "", "message": ""})
        return held["reason"], held["message"]

    def workload(self, name: str) -> Document | None:
        """The Workload of the job of a name."""
        for each in self.get(WORKLOADS)["items"]:
            (owner,) = each["metadata"]["ownerReferences"]
            if owner["name"] == name:
                found: Document = each
                return found
        return None

    def says(self, name: str, kind: str) -> str:
        """The status of a condition of the Workload of a job; empty without one."""
        return str(self._condition(name, kind).get("status", ""))

    def since(self, name: str, kind: str) -> str:
        """When a condition of the Workload of a job changed last."""
        return str(self._condition(name, kind).get("lastTransitionTime", ""))

    def _condition(self, name: str, kind: str) -> Document:
        found = self.workload(name) or {}
        conditions: list[Document] = found.get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), {})

    def pods(self, name: str) -> list[Document]:
        """The pods of a job."""
        found: list[Document] = self.get("pods")["items"]
        return [each for each in found if each["metadata"]["name"].startswith(f"{name}-")]


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    """A cluster with Kueue and our operator; skips where Kueue cannot be built."""
    if shutil.which("go") is None:
        text = "Kueue cannot be built here; missing: Go, on PATH"
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    home = tmp_path_factory.mktemp("kueue")
    catalog = home / "images"
    (catalog / "build").mkdir(parents=True)
    (catalog / "build" / "kueue").symlink_to(binaries.build("kueue", print))
    images = f"--images={shutil.copy(HERE / 'environments.yaml', catalog)}"
    user = Queues(home, default_cache(), "pod,event")
    with contextlib.ExitStack() as stack:
        user.traincrew(
            "up", "--nodes=2", "--no-operator", images, f"--kubeconfig={user.kubeconfig}"
        )
        stack.callback(user.traincrew, "down")
        user.kubectl("apply", "--server-side", f"--kustomize={sources(KUEUE)}/config/default")
        user.kubectl("wait", DEPLOYMENT, *SYSTEM, "--for=condition=Available", "--timeout=120s")
        user.start_operator()
        stack.callback(user.kill_operator)
        user.until("Kueue's webhooks answer", lambda: _flavor(user), 60)
        yield user
        log = user.log()
    assert "Traceback" not in log, log


def _flavor(user: Queues) -> bool:
    """Create a flavor that fits every node; whether that was accepted."""
    flavor = {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "any"}, "spec": {}}
    answer = user.kubectl("apply", "-f", "-", given=json.dumps(flavor), code=None)
    return "created" in answer or "unchanged" in answer
