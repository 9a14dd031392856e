"""Jobs of kinds that other projects define: what their operators and ours are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from hack.cluster import binaries

from traincrew.engine.resources import Resource

if TYPE_CHECKING:
    from benchmarks.real_cluster.status import Status

WORKERS = 3
PODS = WORKERS + 1
"""Of each job."""
MPI_JOBS = Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
PYTORCH_JOBS = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")


def _template(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": name, "image": "traincrew/openmpi:0.1.0", "command": ["sleep", "3600"]}
    return {"spec": {"containers": [container], **spec}}


_INDEXED = {
    "parallelism": PODS,
    "completions": PODS,
    "completionMode": "Indexed",
    "backoffLimit": 0,
    "template": _template("worker", restartPolicy="Never"),
}
SPECS: dict[Resource, dict[str, Any]] = {
    MPI_JOBS: {
        "slotsPerWorker": 1,
        "launcherCreationPolicy": "WaitForWorkersReady",  # as our masters are created
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": _template("launcher")},
            "Worker": {"replicas": WORKERS, "template": _template("worker")},
        },
    },
    PYTORCH_JOBS: {
        "pytorchReplicaSpecs": {
            "Master": {
                "replicas": 1,
                "restartPolicy": "OnFailure",
                "template": _template("pytorch"),
            },
            "Worker": {
                "replicas": WORKERS,
                "restartPolicy": "OnFailure",
                "template": _template("pytorch"),
            },
        },
    },
    JOB_SETS: {
        "replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": _INDEXED}}],
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All"},
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
    },
}
"""The ``spec`` of a job of four pods of each kind."""


_DEFINITIONS = {
    MPI_JOBS: ("mpi-operator", "deploy/v2beta1/mpi-operator.yaml"),
    PYTORCH_JOBS: ("training-operator", "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"),
    JOB_SETS: ("jobset", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
}
"""The program of each kind's project, and the file of its module with the definition."""


def definition(resource: Resource) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind, as its project installs it."""
    program, file = _DEFINITIONS[resource]
    text = (binaries.module_directory(program) / file).read_text(encoding="utf-8")
    name = f"{resource.plural}.{resource.group}"
    found: dict[str, Any]
    for found in yaml.safe_load_all(text):
        if found and found["kind"] == "CustomResourceDefinition":
            assert found["metadata"]["name"] == name
            return found
    raise ValueError(f"{file} of {program} has no definition of {name}")


def says_running(status: Status) -> bool:
    """Return whether the status has the condition that says so."""
    return any(each.type == "Running" and each.status == "True" for each in status.conditions)


def counts_all_ready(status: Status) -> bool:
    """Return whether all Jobs of a JobSet are ready: it has no condition for running."""
    found = status.replicated_jobs_status
    return bool(found) and all(each.ready == 1 for each in found)
