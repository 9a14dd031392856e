"""Clusters with a scheduler of gangs, and a user of them whose jobs need slots.

Each of two nodes has two slots, and each pod of a gang needs one: two gangs of three fit only one
at a time, and neither fits if both have two.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hack.cluster import Options, RealCluster, gangs
from suites.conftest import require_real_cluster

import gangs_api
from hack import images
from traincrew.api.kinds.mxjob import types as mxnet
from traincrew.plan.shared.schedulers import ENGINES, Served, size_of

from .faults.jobs import template
from .install_support import DEPLOY, User, namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

Document = dict[str, Any]
NAME = SPACE = "gangs"
IMAGES = ("operator", "helper", "busybox")
SLOT = "example.com/slot"
SLOTS = 4
SIZE = 3
PROGRAM = Path(sys.executable).with_name("traincrew")


class Engine(NamedTuple):
    """A scheduler of gangs.

    Attributes:
        served: The API of its PodGroups.
        release: Of Kubernetes.
        scheduler: ``schedulerName`` of pods that it places; empty for the default one.
        event: Reason of its event about a pod that finds no room.
        says: What it says of such a pod.
    """

    served: Served
    release: str = "1.36"
    scheduler: str = ""
    event: str = "FailedScheduling"
    says: str = "nodes are available"


ALPHA = Engine(Served(name=gangs.KUBERNETES, version="v1alpha2"))
BETA = Engine(Served(name=gangs.KUBERNETES, version="v1beta1"), release="1.37")
COSCHEDULING = Engine(
    Served(name=gangs.COSCHEDULING, version="v1alpha1"), scheduler=gangs.SCHEDULER
)
KAI = Engine(
    Served(name=gangs.KAI, version="v2alpha2"),
    scheduler=gangs.KAI_SCHEDULER,
    event="Unschedulable",
    says="Resources were found for 1 pods while 3 are required",
)


class GangUser(User):
    """A user of gangs.

    Args:
        cluster: The cluster.
        engine: Its scheduler of gangs.
    """

    def __init__(self, cluster: RealCluster, engine: Engine) -> None:
        super().__init__(cluster, SPACE)
        self.engine = engine

    def template(self, script: str, container: str = "chainer") -> Document:
        """A pod that needs a slot."""
        found = template(script)
        (main,) = found["spec"]["containers"]
        main["name"] = container
        main["resources"]["requests"][SLOT] = main["resources"].setdefault("limits", {})[SLOT] = "1"
        if self.engine.scheduler:
            found["spec"]["schedulerName"] = self.engine.scheduler
        return found

    def elastic(self, name: str, script: str, size: int = SIZE) -> Document:
        """An ElasticJob whose workers are a gang."""
        worker = {
            "replicas": size,
            "restartPolicy": "ExitCode",
            "template": self.template(script),
        }
        return {
            "apiVersion": "elastic.pytorch.org/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": name},
            "spec": {
                "minReplicas": 1,
                "maxReplicas": SLOTS,
                "schedulingPolicy": {"minAvailable": size},
                "replicaSpecs": {"Worker": worker},
            },
        }

    def mxnet(self, name: str, script: str) -> Document:
        """An MxJob whose three replicas are a gang."""
        types = (mxnet.SCHEDULER, mxnet.SERVER, mxnet.WORKER)
        return {
            "apiVersion": mxnet.API_VERSION,
            "kind": mxnet.KIND,
            "metadata": {"name": name},
            "spec": {
                "jobMode": mxnet.DIST,
                "runPolicy": {"schedulingPolicy": {"minAvailable": SIZE}},
                "replicaSpecs": [
                    {"mxReplicaType": each, "template": self.template(script, "mxnet")}
                    for each in types
                ],
            },
        }

    def chainer(self, name: str, script: str) -> Document:
        """A ChainerJob whose workers are a gang; its master needs no slot."""
        workers = {"replicas": SIZE, "template": self.template("sleep 600 & wait $!")}
        master = template(script)
        if self.engine.scheduler:
            master["spec"]["schedulerName"] = self.engine.scheduler
        return {
            "apiVersion": "kubeflow.org/v1alpha1",
            "kind": "ChainerJob",
            "metadata": {"name": name},
            "spec": {
                "backend": "mpi",
                "master": {"template": master},
                "workerSets": {"ws0": workers},
                "runPolicy": {"schedulingPolicy": {"minAvailable": SIZE}},
            },
        }

    def mpi(self, name: str, script: str) -> Document:
        """An MPICluster whose workers are a gang; its master needs no slot."""
        master, worker = template(""), self.template("", "mpi-worker")
        master["spec"]["containers"][0]["name"] = "mpi-master"
        if self.engine.scheduler:
            master["spec"]["schedulerName"] = self.engine.scheduler
        for each in (master, worker):
            del each["spec"]["containers"][0]["command"]  # the transport starts programs
        return {
            "apiVersion": "traincrew.dev/v1alpha1",
            "kind": "MPICluster",
            "metadata": {"name": name},
            "spec": {
                "transport": "exec",
                "master": {"oneShot": {"command": script}, "template": master},
                "workers": {"replicas": SIZE, "template": worker},
                "runPolicy": {"schedulingPolicy": {"minAvailable": SIZE}},
            },
        }

    # -- what a user sees ---------------------------------------------------------------------

    def create_together(self, *jobs: Document) -> None:
        """Create jobs with one command."""
        self.create({"apiVersion": "v1", "kind": "List", "items": list(jobs)})

    def status(self, job: str) -> Document:
        """Return the status of an ElasticJob."""
        found: Document = self.get("elasticjob", job).get("status", {})
        return found

    def until_running(self, job: str, workers: int) -> None:
        """Wait until so many workers of an ElasticJob run."""
        ready = f"{workers}/{workers}"
        self.until(
            f"{workers} workers of {job} run",
            lambda: (
                (status := self.status(job)).get("phase") == "Running"
                and status.get("workersReady") == ready
            ),
            60,
        )

    def pods_of(self, job: str) -> list[Document]:
        """Return the pods of an ElasticJob."""
        return self.items("pods", "-l", f"job-name={job}")

    def size(self, job: str) -> int:
        """Return the size of the PodGroup of an ElasticJob; 0 if there is none."""
        served = self.engine.served
        kind = f"podgroups.{served.version}.{ENGINES[served.name].group}"
        found = gangs_api.owned(self.items(kind), job)
        return size_of(served, found["spec"]) if found else 0

    def why(self, job: str) -> str:
        """Return what ``traincrew why`` says of a job."""
        words = ("why", "--kubeconfig", str(self.cluster.kubeconfig), job, "-n", self.namespace)
        result = subprocess.run(
            [PROGRAM, *words],
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "1000"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def fail(self, pod: str, code: int = 143) -> None:
        """Let a pod that runs `while_told` fail, in two seconds."""
        script = f"(sleep 2; echo {code} >{CODE}) </dev/null >/dev/null 2>&1 &"
        self.kubectl("exec", pod, "--", "sh", "-c", script)

    def delete_all(self) -> None:
        """Delete all jobs, and wait until their pods are gone."""
        kinds = ",".join(PLURALS.values())
        self.kubectl("delete", kinds, "--all", "--wait=false")
        self.until("no pods are left", lambda: not self.items("pods"), 60)


PLURALS = {
    "ElasticJob": "elasticjobs",
    mxnet.KIND: f"{mxnet.PLURAL}.{mxnet.GROUP}",
    "ChainerJob": "chainerjobs",
    "MPICluster": "mpiclusters",
}
CODE = "/tmp/code"
UNTIL_TOLD = f"until [ -e {CODE} ]; do sleep 0.2 & wait $!; done; exit $(cat {CODE})"
"""A script that ends when somebody writes its exit code into a file."""


@contextmanager
def cluster(engine: Engine) -> Iterator[GangUser]:
    """Yield a user of a cluster with a scheduler of gangs, where the operator is installed."""
    require_real_cluster()
    archives = [images.build(name) for name in IMAGES]
    options = Options(NAME, nodes=2, release=engine.release, gangs=engine.served.name)
    with RealCluster(options, print) as found:
        found.load_images(archives)
        slots = {SLOT: str(SLOTS // 2)}
        offer = json.dumps({"status": {"capacity": slots, "allocatable": slots}})
        for node in found.nodes:
            words = ("patch", "node", node.name, "--subresource=status", "--type=merge")
            found.kubectl(*words, "-p", offer)
        found.kubectl("create", "-f", str(DEPLOY))
        with namespace(found, SPACE):
            user = GangUser(found, engine)
            user.rolled_out()
            yield user
