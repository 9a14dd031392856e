"""Somebody who uses queues of Kueue, on any cluster."""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from suites.shell import Document, User

from traincrew.operator.kinds import RESOURCES

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("ElasticJob", "MxJob", "ChainerJob", "MPICluster")
SINGLE = {"MxJob", "ChainerJob"}
"""Kinds whose jobs have one pod here."""
SYSTEM = ("--namespace", "kueue-system")
DEPLOYMENT = "deployment/kueue-controller-manager"
LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
WORKLOADS = "workloads.kueue.x-k8s.io"
ELASTIC = "kueue.x-k8s.io/elastic-job"
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
API = "kueue.x-k8s.io/v1beta2"
PLURALS = {each.kind: f"{each.plural}.{each.group}" for each in reversed(RESOURCES)}


class Queues(User):
    """Somebody who uses queues on a cluster of two nodes."""

    image = "shell:1"
    """What the pods of jobs run: anything with a shell."""

    @abstractmethod
    def start_operator(self) -> None:
        """Start our operator."""

    @abstractmethod
    def kill_operator(self) -> None:
        """Kill it, so that it can tidy nothing up; return when it does not run any more."""

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

    def topology(self, name: str, *labels: str) -> None:
        """Create a topology whose levels are labels of nodes, from the top."""
        self._kueue("Topology", name, {"levels": [{"nodeLabel": label} for label in labels]})

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

    def job(
        self, kind: str, name: str, queue: str, script: str = "sleep 1", **more: Any
    ) -> Document:
        """A job that asks for two tenths of a processor, or one if it has a single pod.

        Args:
            kind: Its kind.
            name: Its name.
            queue: Its queue; empty for none.
            script: What its program does.
            more: Further fields of the pods.
        """
        metadata = {"name": name, "labels": {LABEL: queue} if queue else {}}
        api, spec = self._specs(script, more)[kind]
        return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}

    def _specs(self, script: str, more: Document) -> dict[str, tuple[str, Document]]:
        """Version and ``spec`` of a job of each kind."""

        def template(container: str, script: str = script) -> Document:
            return _template(self.image, container, script, **more)

        workers = {"replicas": 2, "template": template("worker")}
        single = {"mxReplicaType": "WORKER", "template": template("mxnet")}
        alone = {"template": template("chainer")}
        command = {"oneShot": {"command": script}, "template": template("mpi-master", "")}
        hosts = {"replicas": 1, "template": template("mpi-worker", "")}
        return {
            "ElasticJob": (
                "elastic.pytorch.org/v1alpha1",
                {
                    "rdzvEndpoint": "nowhere:1",
                    "cleanPodPolicy": "Running",
                    "replicaSpecs": {"Worker": workers},
                },
            ),
            "MxJob": (
                "mxnet.mlkube.io/v1beta1",
                {"jobMode": "local", "replicaSpecs": [single]},
            ),
            "ChainerJob": ("kubeflow.org/v1alpha1", {"master": alone}),
            "MPICluster": (
                "traincrew.dev/v1alpha1",
                {"transport": "exec", "master": command, "workers": hosts},
            ),
        }

    def urgent(self, kind: str, name: str, queue: str, script: str = "sleep 1") -> Document:
        """A job of a high priority."""
        self.priority("high", 1000)
        job = self.job(kind, name, queue, script)
        job["metadata"]["labels"][PRIORITY] = "high"
        return job

    def stored(self, kind: str, name: str) -> Document:
        """A job as it is stored."""
        return self.get(PLURALS[kind], name)

    def holds(self, kind: str, name: str, condition: str) -> bool:
        """Whether a condition of a job is true."""
        found = self.stored(kind, name).get("status", {}).get("conditions", ())
        return any(each["type"] == condition and each["status"] == "True" for each in found)

    def until_holds(self, kind: str, name: str, condition: str, seconds: float = 60) -> None:
        """Wait until a condition of a job is true."""
        text = f"{name} is {condition}"
        self.until(text, lambda: self.holds(kind, name, condition), seconds)

    def reason(self, kind: str, name: str) -> tuple[str, str]:
        """Why a job has no pods, and the same for people."""
        status = self.stored(kind, name).get("status", {})
        found = {each["type"]: each for each in status.get("conditions", ())}
        held = found.get("Suspended", {"reason": "", "message": ""})
        return held["reason"], held["message"]

    def workload(self, name: str) -> Document | None:
        """The Workload of the job of a name, or the first of them."""
        return next(iter(self.workloads(name)), None)

    def workloads(self, name: str) -> list[Document]:
        """The Workloads of the job of a name, those that others replace first."""
        found = [
            each
            for each in self.get(WORKLOADS)["items"]
            if any(o["name"] == name for o in each["metadata"].get("ownerReferences", ()))
        ]
        return sorted(found, key=lambda each: REPLACES in each["metadata"].get("annotations", {}))

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

    def holding(self, name: str) -> set[str]:
        """The UIDs of the pods of a job that hold resources: all that have not ended."""
        ended = {"Succeeded", "Failed"}
        found = self.pods(name)
        return {each["metadata"]["uid"] for each in found if each["status"]["phase"] not in ended}

    def directory(self, name: str) -> Path:
        """A directory of this machine in which pods of any node and user may write."""
        found = self.home / name
        found.mkdir()
        found.chmod(0o777)
        return found

    def kill_kueue(self) -> None:
        """Kill Kueue's controller; another one is started."""
        self.kubectl("delete", "pod", "--all", *SYSTEM, "--force", "--grace-period=0")

    def until_kueue_is_up(self) -> None:
        """Wait until Kueue's controller is available."""
        self.kubectl("wait", DEPLOYMENT, *SYSTEM, "--for=condition=Available", "--timeout=120s")

    def until_kueue_answers(self) -> None:
        """Wait until a flavor that fits every node has been accepted."""
        flavor = {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "any"}}
        text = json.dumps(flavor | {"spec": {}})

        def accepted() -> bool:
            answer = self.kubectl("apply", "-f", "-", given=text, code=None)
            return "created" in answer or "unchanged" in answer

        self.until("Kueue's webhooks answer", accepted, 60)

    def delete(self, kind: str, *names: str) -> None:
        """Delete jobs; nothing of them is left in the end."""
        for name in names:
            self.kubectl("delete", PLURALS[kind], name, "--timeout=60s")
        self.until("no Workload is left", lambda: not any(map(self.workload, names)), 60)
        assert not any(self.holding(name) for name in names), self.state()
        self.until("no pod is left", lambda: not any(map(self.pods, names)), 60)


def _template(image: str, container: str, script: str, **spec: Any) -> Document:
    """Pods that run a shell script and ask for a tenth of a processor."""
    resources = {"requests": {"cpu": "100m"}}
    main: Document = {"name": container, "image": image, "resources": resources}
    if script:
        main["command"] = ["sh", "-c", script]
    return {"spec": {"containers": [main], "terminationGracePeriodSeconds": 1, **spec}}
