"""Kinds of other projects on a real cluster, with the projects' own definitions and our chart.

One installation serves all of them, limited by RBAC: a job of each kind runs to its end with real
pods, and no request of the operator is denied.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from suites.operators.modules import JOBSET, MPI, TRAINING, sources

from .faults.jobs import template, work
from .install_support import (
    ACCOUNT,
    SECONDS,
    install_chart,
    namespace,
    refusal,
    uninstall,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hack.cluster import RealCluster

    from .install_support import User

pytestmark = pytest.mark.timeout(600)
Document = dict[str, Any]
SPACE = "project-kinds"
KINDS = ("JobSet", "MPIJob", "MXJob", "PyTorchJob")
DEFINITIONS = {
    "JobSet": (JOBSET, "", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
    "MPIJob": (MPI, "", "manifests/base/kubeflow.org_mpijobs.yaml"),
    "MXJob": (
        TRAINING, "training-operator-1.8", "manifests/base/crds/kubeflow.org_mxjobs.yaml"
    ),
    "PyTorchJob": (TRAINING, "", "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"),
}  # fmt: skip
"""Module, program and file of the definition of each kind."""


def replicas(count: int, script: str, container: str = "main") -> Document:
    """Replicas of one type."""
    found = template(script)
    found["spec"]["containers"][0]["name"] = container
    return {"replicas": count, "restartPolicy": "Never", "template": found}


SHORT = "echo hello; " + work(2)
LONG = work(600)
SPECS: dict[str, tuple[str, Document, set[str]]] = {
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        {
            "replicatedJobs": [
                {
                    "name": name,
                    "template": {
                        "spec": {
                            "parallelism": pods,
                            "completions": pods,
                            "template": template(SHORT),
                        }
                    },
                }
                for name, pods in (("driver", 1), ("worker", 2))
            ]
        },
        {"jobset-driver-0", "jobset-worker-0"},
    ),
    "MPIJob": (
        "kubeflow.org/v2beta1",
        {"mpiReplicaSpecs": {"Launcher": replicas(1, SHORT), "Worker": replicas(2, LONG)}},
        {"mpijob-launcher", "mpijob-worker-0", "mpijob-worker-1"},
    ),
    "MXJob": (
        "kubeflow.org/v1",
        {
            "jobMode": "MXTrain",
            "mxReplicaSpecs": {
                "Scheduler": replicas(1, SHORT, "mxnet"),
                "Server": replicas(1, LONG, "mxnet"),
                "Worker": replicas(2, SHORT, "mxnet"),
            },
        },
        {"mxjob-scheduler-0", "mxjob-server-0", "mxjob-worker-0", "mxjob-worker-1"},
    ),
    "PyTorchJob": (
        "kubeflow.org/v1",
        # Without a master: pods that wait for one need another image.
        {"pytorchReplicaSpecs": {"Worker": replicas(2, SHORT, "pytorch")}},
        {"pytorchjob-worker-0", "pytorchjob-worker-1"},
    ),
}
"""API version, spec, and how the names of the pods begin, by kind."""


def job(kind: str) -> Document:
    """A job of a kind, named like it."""
    version, spec, _ = SPECS[kind]
    for each in spec.get("replicatedJobs", ()):
        each["template"]["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": kind.lower()}, "spec": spec}


def definition(kind: str) -> Path:
    """The file of the project's own definition of a kind."""
    module, program, file = DEFINITIONS[kind]
    return sources(module, program) / file


@pytest.fixture
def user(cluster: RealCluster) -> Iterator[User]:
    """A user with jobs of all kinds, whose definitions are the projects'."""
    uninstall(cluster)
    with namespace(cluster, SPACE) as found:
        for kind in KINDS:
            cluster.kubectl("create", "-f", str(definition(kind)))
        try:
            with install_chart(cluster, *KINDS):
                yield found
        finally:
            for kind in KINDS:
                cluster.kubectl("delete", "-f", str(definition(kind)), f"--timeout={SECONDS}s")
    uninstall(cluster)


def test_a_job_of_each_kind_runs_to_its_end(cluster: RealCluster, user: User) -> None:
    before = stored_definitions(cluster)
    for kind in KINDS:
        user.create(job(kind))

    def phases() -> dict[str, str]:
        program = Path(sys.executable).with_name("traincrew")
        options = (f"--kubeconfig={cluster.kubeconfig}", f"--namespace={SPACE}", "-o", "json")
        printed = subprocess.run(
            [program, "list", *options], stdout=subprocess.PIPE, check=True, timeout=60
        )
        return {each["kind"]: each["phase"] for each in json.loads(printed.stdout)["jobs"]}

    user.until("all jobs succeeded", lambda: phases() == dict.fromkeys(KINDS, "Succeeded"), every=1)

    for kind in KINDS:
        ended = "Completed" if kind == "JobSet" else "Succeeded"
        conditions = user.get(kind, kind.lower())["status"]["conditions"]
        held = {each["type"] for each in conditions if each["status"] == "True"}
        assert ended in held, conditions
        names = {each["metadata"]["name"] for each in user.items("pods")}
        missing = [
            begin for begin in SPECS[kind][2] if not any(name.startswith(begin) for name in names)
        ]
        assert missing == []
        assert user.items("services", f"--selector={OF_JOB[kind]}={kind.lower()}")
    assert "hello" in user.kubectl("logs", "pytorchjob-worker-1")

    # The definitions are the projects', untouched; what they have no room for is in an annotation.
    assert stored_definitions(cluster) == before
    annotations = user.get("PyTorchJob", "pytorchjob")["metadata"]["annotations"]
    assert json.loads(annotations["traincrew.dev/status"])["status"]["phase"] == "Succeeded"
    entries = user.requests(ACCOUNT)
    assert {entry["objectRef"]["resource"] for entry in entries} >= {
        *("jobsets", "mpijobs", "mxjobs", "pytorchjobs"),
    }
    assert [text for entry in entries if (text := refusal(entry))] == []


OF_JOB = dict.fromkeys(KINDS, "training.kubeflow.org/job-name") | {
    "JobSet": "jobset.sigs.k8s.io/jobset-name"
}
"""The label of children with the name of their job."""


def stored_definitions(cluster: RealCluster) -> dict[str, int]:
    """The generations of the definitions, which every change of them raises."""
    found = json.loads(cluster.kubectl("get", "crd", "-o", "json"))["items"]
    names = {f"{kind.lower()}s" for kind in KINDS}
    return {
        each["metadata"]["name"]: each["metadata"]["generation"]
        for each in found
        if each["spec"]["names"]["plural"] in names
    }
